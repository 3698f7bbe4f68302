"""The directive ``public``: all public names of a module, so that none can be forgotten.

With ``-D public_modules=oddarms`` a quick build documents only that module.

It writes a table of them and then the text of each. A name that the package itself exports, such as
`oddarms.Result`, has its text there only, and the table of `oddarms.search` links to it.

Docstrings are plain text with few signs of reStructuredText; signs that formulas have, such as
the bars of |k|, are protected here instead of in all of them.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import re
import sys
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.ext.autosummary import Autosummary
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import oddarms

_LOGGER = logging.getLogger(__name__)
_PARTS = re.compile(r"<!-- parts of ([\w.]+) -->")
_LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
_SIGN = re.compile(r"\||(?<=\w)_(?!\w)")


def public_names(module: ModuleType) -> list[str]:
    """Return what a module offers: its `__all__` or, without one, what it defines itself."""
    names = getattr(module, "__all__", None)
    if names is not None:
        return list(names)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and (inspect.isclass(value) or inspect.isfunction(value))
    ]


def home_of(module: str, name: str) -> str:
    """Return where the text of a module's name is: that of a name of the package is there."""
    value = getattr(importlib.import_module(module), name)
    if inspect.ismodule(value):
        return value.__name__
    at_top = name in oddarms.__all__ and getattr(oddarms, name) is value
    return f"oddarms.{name}" if at_top else f"{module}.{name}"


class Public(SphinxDirective):
    """``.. public:: oddarms.arms``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the lines that document the module."""
        module = self.arguments[0]
        if module not in (self.config.public_modules or [module]):
            return []
        node = nodes.Element()
        lines = StringList(_lines(module), source=f"{module} (public)")
        self.state.nested_parse(lines, self.content_offset, node, match_titles=True)
        return node.children


class PublicTable(Autosummary):
    """A table of names and of what is said of each first; of a constant, the text under it."""

    def get_items(self, names: list[str]) -> list[tuple[str, str | None, str, str]]:
        """Return name, signature, first sentence and full name of each."""
        return [(name.rpartition(".")[2], None, _first_sentence(name), name) for name in names]


def _first_sentence(full: str) -> str:
    paragraph = " ".join(itertools.takewhile(str.strip, _said(full)))
    sentence, _, others = paragraph.partition(". ")
    return f"{sentence}." if others else paragraph


def _said(full: str) -> list[str]:
    """Return the text of a module, a class, a function, or under a constant."""
    module, _, name = full.rpartition(".")
    value = sys.modules.get(full) or getattr(importlib.import_module(module), name)
    if _is_data(value):
        return _protected(_text_of_data(module, name))
    return _protected((inspect.getdoc(value) or "").splitlines())


def _lines(module: str) -> list[str]:
    names = public_names(importlib.import_module(module))
    lines = [f".. automodule:: {module}", "   :no-members:", ""]
    lines += [".. public-table::", "   :nosignatures:", ""]
    lines += [f"   {home_of(module, name)}" for name in names] + [""]
    for name in names:
        lines += _object(module, name)
    return lines


def _object(module: str, name: str) -> list[str]:
    value = getattr(importlib.import_module(module), name)
    home = home_of(module, name)
    if inspect.ismodule(value) or home != f"{module}.{name}":
        return []
    if not (text := _said(home)):
        _LOGGER.warning("%s is public and has no docstring, or no text under it", home)
    if inspect.isclass(value):
        others = [kind.__name__ for kind in value.__mro__[1:] if not _ours(kind)]
        inherited = f"   :inherited-members: {', '.join(others)}"
        return [f".. autoclass:: {home}", "   :members:", inherited, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {home}", ""]
    return [f".. py:data:: {name}", f"   :module: {module}", "", *(f"   {line}" for line in text)]


def _is_data(value: object) -> bool:
    return not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value))


def _ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "oddarms"


def _text_of_data(module: str, name: str) -> list[str]:
    """Return the text under a constant or an alias, in whichever file it is made."""
    begins = re.compile(rf"^{name}\b", re.MULTILINE)
    for other in [part for part in sys.modules if part.startswith(module)]:
        try:
            analyzer = ModuleAnalyzer.for_module(other)
            found = begins.search(analyzer.code) and analyzer.find_attr_docs().get(("", name))
        except PycodeError:
            continue
        if found:
            return found
    return []


def _protected(lines: list[str]) -> list[str]:
    protected, literal = [], False
    for line in lines:
        literal = line.lstrip().startswith(">>>") or (literal and bool(line.strip()))
        protected.append(line if literal or set(line) <= set("= ") else _protected_line(line))
    return protected


def _protected_line(line: str) -> str:
    parts = _LITERAL.split(line)
    parts[::2] = [_SIGN.sub(lambda found: f"\\{found[0]}", part) for part in parts[::2]]
    return "".join(parts)


def _process(*event: Any) -> None:
    """Make a docstring what napoleon understands, before it reads its sections."""
    kind: str = event[1]
    lines: list[str] = event[-1]
    lines[:] = _one_by_one(_protected(lines))
    if kind in ("attribute", "data", "property") and lines and ":" in lines[0]:
        lines.insert(0, "")  # else what stands before the colon would be its type


def _one_by_one(lines: list[str]) -> list[str]:
    """Return a docstring whose attributes that are explained together have a text each."""
    entries, section, found = [], "", []
    for here, below in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        if set(below) == {"-"}:
            section = here
        together = section == "Attributes" and re.fullmatch(r"\w+(?:, \w+)+", here)
        if together or not here.startswith(" "):
            entries.append((together, here, found := []))
        else:
            found.append(here)
    return [
        line
        for together, here, text in entries
        for name in (here.split(", ") if together else [here])
        for line in (name, *text)
    ]


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace ``<!-- parts of PACKAGE -->`` by a section for each module of the package."""
    del app, page
    source[0] = _PARTS.sub(lambda place: _sections(place[1]), source[0])


def _sections(package: str) -> str:
    parts = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    names = [part.name for part in parts if not part.name.rpartition(".")[2].startswith("_")]
    return "\n\n".join(f"## {name}\n\n```{{eval-rst}}\n.. public:: {name}\n```" for name in names)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, and what protects docstrings."""
    app.add_config_value("public_modules", [], "env", list)
    app.add_directive("public", Public)
    app.add_directive("public-table", PublicTable)
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
