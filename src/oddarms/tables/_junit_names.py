"""Names of tests, made of what a report says of them: short, and of each test another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oddarms.tables._junit_xml import Key

LEVELS = 3


def names_of(keys: Sequence[Key]) -> list[str]:
    """Return a name for each test: the shortest that no other has.

    Examples
    --------
    >>> keys = [Key("s", "shop.Login", "works", ""), Key("s", "shop.Pay", "works", "")]
    >>> names_of(keys)
    ['shop.Login::works', 'shop.Pay::works']
    >>> names_of([Key("a.js", "adds", "adds", ""), Key("b.js", "adds", "adds", "")])
    ['a.js::adds', 'b.js::adds']
    """
    names = [_name(key, 0) for key in keys]
    for level in range(1, LEVELS):
        counts = Counter(names)
        names = [
            name if counts[name] == 1 else _name(key, level)
            for key, name in zip(keys, names, strict=True)
        ]
    return _numbered(names)


def _name(key: Key, level: int) -> str:
    """Return a name; on higher levels it has more of what is known."""
    node = _node_id(key)
    if level == 0 and node:
        return node
    own = _own_name(key) or "(no name)"
    first = [key.suite if level and key.suite != key.classname else ""]
    first += [key.file if level > 1 else ""]
    return "::".join([*(part for part in first if part), own])


def _own_name(key: Key) -> str:
    """Return class and name, or the name alone where it has the class in it."""
    where = key.classname or key.suite
    if not key.name or not where:
        return key.name or where
    if key.name == where or _begins_with(key.name, where) or key.name.endswith(f" {where}"):
        return key.name
    return f"{where}::{key.name}"


def _begins_with(name: str, where: str) -> bool:
    """Return whether a name has the class before it, such as in ``shop.Login.works(1)``."""
    return name.startswith((f"{where}.", f"{where} ", f"{where}::", f"{where}/"))


def _node_id(key: Key) -> str:
    """Return how pytest names a test of which the file is known; empty for all others."""
    if not key.file.endswith(".py"):
        return ""
    module = key.file.removesuffix(".py").replace("\\", "/").replace("/", ".")
    if key.classname != module and not key.classname.startswith(f"{module}."):
        return ""
    classes = key.classname[len(module) + 1 :].split(".") if key.classname != module else []
    return "::".join([key.file, *classes, key.name])


def _numbered(names: list[str]) -> list[str]:
    """Return names of which none is there twice, though parts of several may make the same."""
    taken = set(names)
    numbers: Counter[str] = Counter()
    result = []
    for name in names:
        numbers[name] += 1
        own = name if numbers[name] == 1 else f"{name} ({numbers[name]})"
        while own != name and own in taken:
            numbers[name] += 1
            own = f"{name} ({numbers[name]})"
        taken.add(own)
        result.append(own)
    return result
