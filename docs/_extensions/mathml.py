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
    r"\\textstyle(?![a-z])": "",
    r"\\(t?frac)(\d)": r"\\\1{\2}",
    r"(\\t?frac\{\d\})(\d)": r"\1{\2}",
}
_APPLY = "<mo>&ApplyFunction;</mo>"
_BAR = '<mo stretchy="false">|</mo>'
_BAR_OF_SIZE = '<mo stretchy="false" lspace="0" rspace="0">|</mo>'
_THIN_SPACE = '<mspace width="0.1667em"></mspace>'
_BRACKET = re.compile(r"\s*(?:<mrow>\s*)?(?:<mo[^>]*>[(\[{⟨]|<mspace|</|$)")
"""What follows a function without a space."""
_ENDS_FACTOR = re.compile(r"<m[in][ >].*|<mo[^>]*>[)\]}]</mo>|</(?!munder|mt)\w+>")
"""What a function follows with a space."""


def mathml_of(code: str, *, block: bool) -> str:
    """Return a formula of LaTeX as MathML; MathError says what is not known."""
    for pattern, replacement in _SAME.items():
        code = re.sub(pattern, replacement, code)
    if block:
        code = _ENVIRONMENT.sub("", code)
    return _spaced(str(tex2mathml(code.strip(), as_block=block)))


def _spaced(mathml: str) -> str:
    """Return MathML spaced as TeX does: a thin one in "log x", none within "|x|"."""
    lines, result = mathml.split("\n"), []
    for number, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        after = lines[number + 1 :]
        if after and after[0].strip() == _APPLY and number > 0:
            before = lines[number - 1]
            if before.startswith(indent + "<") and _ENDS_FACTOR.fullmatch(before.strip()):
                result.append(indent + _THIN_SPACE)
        result.append(line)
        if line.strip() == _APPLY and not _BRACKET.match(" ".join(after)):
            result.append(indent + _THIN_SPACE)
    return "\n".join(result).replace(_BAR, _BAR_OF_SIZE)


def _keep_together(_app: Sphinx, doctree: nodes.document, _name: str) -> None:
    """Let no line break part a formula from a bracket before it or a comma behind it."""
    for node in list(doctree.findall(nodes.math)):
        parent, place = node.parent, node.parent.index(node)
        opening, closing = "", ""
        if place > 0 and isinstance(before := parent[place - 1], nodes.Text):
            opening = before[len(before.rstrip("([")) :]
            parent[place - 1] = nodes.Text(before.removesuffix(opening))
        if place + 1 < len(parent) and isinstance(after := parent[place + 1], nodes.Text):
            closing = after[: len(after) - len(after.lstrip(",.;:)]?!"))]
            parent[place + 1] = nodes.Text(after.removeprefix(closing))
        if opening or closing:
            together = nodes.inline("", "", classes=["formula"])
            parent[place] = together
            together.extend([nodes.Text(opening), node, nodes.Text(closing)])


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
    app.connect("doctree-resolved", _keep_together)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
