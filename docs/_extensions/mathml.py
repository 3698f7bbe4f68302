"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

_LOGGER = logging.getLogger(__name__)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{(?:align|equation|gather|split)\*?\}")
_SAME = {  # what docutils does not know, and what is the same to it
    r"\\dots(?![a-z])": r"\\ldots",
    r"\\dotsc(?![a-z])": r"\\ldots",
    r"\\iff(?![a-z])": r"\\;\\Longleftrightarrow\\;",
    r"\\implies(?![a-z])": r"\\;\\Longrightarrow\\;",
    r"\\(big|Big|bigg|Bigg)(?![a-zA-Z])": r"\\\1l",
    r"\\middle(?![a-z])": "",
    r"\\stackrel(?![a-z])": r"\\overset",
    r"\\textbf(?![a-z])": r"\\mathbf",
    r"\\operatorname\*": r"\\operatorname",
    r"\\tag\{([^}]*)\}": r"\\qquad\\text{(\1)}",
    r"\\qed(?![a-z])": r"\\square",
}


def mathml_of(code: str, *, block: bool) -> str:
    """Return a formula of LaTeX as MathML; MathError says what is not known."""
    for pattern, replacement in _SAME.items():
        code = re.sub(pattern, replacement, code)
    if block:
        code = _ENVIRONMENT.sub("", code)
    return str(tex2mathml(code.strip(), as_block=block))


def _formula(node: nodes.Element, *, block: bool) -> str:
    try:
        return mathml_of(node.astext(), block=block)
    except MathError as error:
        _LOGGER.warning("formula %s: %s", node.astext(), error, location=node, type="mathml")
        return "<code>?</code>"


def _visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_formula(node, block=False))
    raise nodes.SkipNode


def _visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node.get("number"):
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append(_formula(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
