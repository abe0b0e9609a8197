"""Formulas as MathML, written when the site is built, so that no script has to be fetched to read them."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that stands alone; a wide one scrolls within its own frame."""
    translator.body.append('<div class="formula">')
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    translator.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Tell Sphinx of the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
