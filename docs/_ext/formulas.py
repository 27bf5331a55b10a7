"""Formulas as MathML, which browsers draw themselves, and names in docstrings as they are written."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def inline(writer: Any, node: nodes.math) -> None:
    """Draw a formula within a line."""
    writer.body.append(_drawn(node))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Draw a formula on a line of its own."""
    writer.body.append(f'<div class="formula">{_drawn(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _drawn(node: nodes.Element, as_block: bool = False) -> str:
    # a named function stands off what follows it
    spaced = re.sub(r"\\(log|max) (?=[\w\\])", r"\\\1\\, ", node.astext())
    try:
        return tex2mathml(spaced, as_block=as_block)
    except MathError as error:
        logger.warning("%s in the formula %s", error, spaced, location=node)
        return ""


def literal_names(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep names that end in an underscore, in shapes such as (n_features_in_,), and endings such as `.npy` as they are."""
    lines[:] = [re.sub(r"(?<!`)(`\.[a-z]+`)(?!`)", r"`\1`", re.sub(r"_(?=,\))", r"\\_", line)) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer, and the hook before napoleon's."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    app.connect("autodoc-process-docstring", literal_names, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
