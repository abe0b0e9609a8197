"""The site: Sphinx with the PyData theme, pages in MyST, examples by sphinx-gallery. `make docs` builds it.

Nothing of it is fetched when it is looked at: fonts are the reader's own, formulas are MathML.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "src"), str(HERE / "_ext")]

import evenhand  # noqa: E402  the line above says where it is

project = "evenhand"
author = "the evenhand developers"
project_copyright = "2026, the evenhand developers"
version = release = evenhand.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "mathml",
]
exclude_patterns = ["_build", "_ext", "_static", "_templates", "results"]
templates_path = ["_templates"]
default_role = "py:obj"  # a name in a docstring is code, and a link where it is one of ours
nitpicky = False  # most names in docstrings are parameters, which have no page of their own

myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings say what a parameter is, in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the class's own page lists them
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 60,
    "write_computation_times": False,  # pages that nobody asked for, with scripts from elsewhere
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_", "__repr__"),
}

html_theme = "pydata_sphinx_theme"
html_title = "evenhand"
html_static_path = ["_static"]
html_css_files = ["evenhand.css"]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": "evenhand"},
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "navigation_depth": 3,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "comparison": [], "reproduction": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
