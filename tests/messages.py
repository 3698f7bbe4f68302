"""Collects the messages of the errors that the package raises, from its source code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oddarms import errors

CLASSES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, BaseException)
} | {"UsageError"}
"""The classes whose messages people read: ours, and pytest's for the plugin."""
RULES = {"wrong", "wrong_somewhere"}
"""Functions that make an `InvalidParameter` of a rule, adding its place and its period."""
SLOT = "{}"
"""Stands in a message for what is known only when it is raised."""


@dataclass(frozen=True)
class Message:
    """One message of the source code.

    Attributes
    ----------
    kind
        The name of the class that is raised.
    text
        The message, with `SLOT` where a value is put in; None where it is all made elsewhere.
    """

    file: Path
    line: int
    kind: str
    text: str | None

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line} {self.kind}: {self.text}"


def messages_of(folder: Path) -> list[Message]:
    """Return the messages of all modules of a folder."""
    found: list[Message] = []
    for file in sorted(folder.rglob("*.py")):
        found += _messages(file, ast.parse(file.read_text(encoding="utf-8")))
    return found


def _messages(file: Path, module: ast.Module) -> Iterator[Message]:
    constants = _assigned(module.body)
    for scope, call in _calls(module):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else _name(call.func)
        if name not in CLASSES | RULES or not call.args:
            continue
        known = constants | (_assigned(list(ast.walk(scope))) if scope else {})
        for text in _texts(call.args[0], known):
            whole = f"{SLOT}: {text}." if text and name in RULES else text
            yield Message(file, call.lineno, "InvalidParameter" if name in RULES else name, whole)


def _calls(
    node: ast.AST, scope: ast.AST | None = None
) -> Iterator[tuple[ast.AST | None, ast.Call]]:
    """Yield the calls below a node, each with the function in which it stands."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield scope, child
        inner = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        yield from _calls(child, inner)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _assigned(nodes: list[ast.AST] | list[ast.stmt]) -> dict[str, list[ast.expr]]:
    """Return what is assigned to each name."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found.setdefault(_name(target), []).append(node.value)
    return found


def _texts(node: ast.expr, known: dict[str, list[ast.expr]]) -> list[str | None]:
    """Return the texts an expression may have; None for one that is not written here."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        return _joined([_parts(value, known) for value in node.values])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined([_parts(side, known) for side in (node.left, node.right)])
    if isinstance(node, ast.IfExp):
        return _texts(node.body, known) + _texts(node.orelse, known)
    if isinstance(node, ast.Name) and node.id in known:
        rest = {name: values for name, values in known.items() if name != node.id}
        return [text for value in known[node.id] for text in _texts(value, rest)]
    return [None]


def _parts(node: ast.expr, known: dict[str, list[ast.expr]]) -> list[str]:
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    if isinstance(node, ast.FormattedValue) and not isinstance(inner, ast.Name | ast.IfExp):
        return [SLOT]
    return [SLOT if text is None else text for text in _texts(inner, known)]


def _joined(parts: list[list[str]]) -> list[str | None]:
    texts = [""]
    for choices in parts:
        texts = [text + choice for text in texts for choice in choices]
    return list(texts)
