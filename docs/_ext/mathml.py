"""Formulas as MathML, written when the site is built, so that no script has to be fetched to read them."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

LOG = logging.getLogger(__name__)
SAME = {
    r"\dots": r"\ldots",
    r"\lVert": r"\|",
    r"\rVert": r"\|",
    r"\lvert": "|",
    r"\rvert": "|",
}  # for docutils


def convert(node: nodes.math | nodes.math_block, as_block: bool) -> str:
    """MathML of a formula, or its text with a warning."""
    formula = re.sub(r"\\[a-zA-Z]+", lambda command: SAME.get(command[0], command[0]), node.astext())
    try:
        return tex2mathml(formula, as_block=as_block)
    except MathError as error:
        LOG.warning("%s", error, location=node)
        return f"<code>{nodes.unescape(formula)}</code>"


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(convert(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that stands alone; a wide one scrolls within its own frame."""
    translator.body.append(f'<div class="formula" tabindex="0">{convert(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Tell Sphinx of the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
