"""Objects as bytes and back, without pickle: a tree of plain values beside numpy arrays.

Only classes that packages which the reader names have defined are made again. Their modules are
imported, but none of their code is called, so that a file from elsewhere can hold wrong figures but
no program. Nor can it take up more memory than goes with its size, see `oddarms.freezing._packing`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from importlib import import_module
from inspect import getattr_static
from typing import Any, NoReturn

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.freezing._generators import BIT_GENERATORS, check_seed, check_state
from oddarms.freezing._packing import packed, unpacked

_TREE = "tree"
_FORMAT = 1
_MOST_ALIKE = 64
"""Members of a set that have one hash; numbers of 64 bits have at most 16."""


def freeze(value: Any, *, expected: int = 0) -> bytes:
    """Return an object as bytes; the same object gives the same bytes.

    Plain values, containers, numpy arrays and generators, enumerations, classes and instances with
    a ``__dict__``. What is shared inside stays shared, but an array that is a view of another one
    becomes an array of its own. Everything else, such as a function, is refused.

    Parameters
    ----------
    value
        The object.
    expected
        About how many bytes the arrays of such an object have in memory; `thaw` must be told the
        same.
    """
    writer = _Writer()
    try:
        root = writer.value(value)
        tree = json.dumps({"format": _FORMAT, "root": root, "objects": writer.objects})
    except (RecursionError, ValueError) as error:  # too deep, or a number of too many digits
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(
            f"a state to be saved must be plain data but is not: {error}."
        ) from None
    arrays = {f"a{i}": array for i, array in enumerate(writer.arrays)}
    return packed({_TREE: np.frombuffer(tree.encode(), dtype=np.uint8), **arrays}, expected)


def thaw(data: bytes, packages: Iterable[str] = (), *, expected: int = 0) -> Any:
    """Return the object that was frozen.

    Parameters
    ----------
    data
        What `freeze` returned.
    packages
        Packages beside oddarms whose classes may be made.
    expected
        As for `freeze`; an object that is far larger, and larger than goes with the size of the
        data, is refused.
    """
    try:
        arrays = unpacked(data, expected, _TREE)
        tree = json.loads(arrays.pop(_TREE).tobytes())
        if tree["format"] != _FORMAT:
            raise ValueError(f"its format is {tree['format']}, not {_FORMAT}")
        return _Reader(tree["objects"], arrays, {"oddarms", *packages}).value(tree["root"])
    except Exception as bad:  # damage shows in as many ways as there are bytes
        raise InvalidParameter(
            f"a saved state must be whole but this one is damaged: {_sentence(bad)}."
        ) from bad


def _sentence(error: Exception) -> str:
    """Return what is wrong in a line that cannot be as long as the data is."""
    text = " ".join(str(error).split()) or type(error).__name__
    return ascii(text[:200])[1:-1].rstrip(".")


class _Writer:
    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # an id is unique only while its object lives

    def value(self, value: Any) -> Any:
        if value is None or type(value) in (bool, str, int, float):
            return value
        if isinstance(value, np.generic):
            if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
                _refuse(value)
            return {"scalar": value.dtype.str, "value": value.item()}
        if isinstance(value, Enum):
            if type(value).__members__.get(value.name) is not value:  # a combination of flags
                _refuse(value)
            return {"enum": _name(type(value)), "name": value.name}
        if isinstance(value, type):
            return {"class": _name(value)}
        if isinstance(value, tuple):
            items = [self.value(item) for item in value]
            if type(value) is tuple:
                return {"tuple": items}
            if getattr(value, "__dict__", None):
                _refuse(value)
            return {"named": _name(type(value)), "tuple": items}
        if type(value) is frozenset:
            return {"frozenset": self._members(value)}
        return {"object": self._object(value)}

    def _members(self, value: Iterable[Any]) -> list[Any]:
        """Return the members of a set, in an order that is the same in every process."""
        return sorted(self._keys(value), key=json.dumps)

    def _keys(self, value: Iterable[Any]) -> list[Any]:
        keys = [self.value(item) for item in value]
        if any(map(_has_object, keys)):
            _refuse(value)
        return keys

    def _object(self, value: Any) -> int:
        if id(value) in self._known:
            return self._known[id(value)]
        number = self._known[id(value)] = len(self.objects)
        self._kept.append(value)
        self.objects.append(None)
        self.objects[number] = self._content(value)
        return number

    def _content(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            if value.dtype.hasobject or not value.dtype.itemsize or not str(value.dtype).isascii():
                _refuse(value)
            self.arrays.append(value)
            return {"array": len(self.arrays) - 1, "writeable": bool(value.flags.writeable)}
        if type(value) is np.random.Generator:
            return {"generator": self._generator(value)}
        if type(value) is list:
            return {"list": [self.value(item) for item in value]}
        if type(value) is set:
            return {"set": self._members(value)}
        if type(value) is dict:
            keys = self._keys(value)
            items = [self.value(item) for item in value.values()]
            return {"dict": [list(pair) for pair in zip(keys, items, strict=True)]}
        if not _is_plain(value):
            _refuse(value)
        return {
            "instance": _name(type(value)),
            "dict": [[k, self.value(v)] for k, v in vars(value).items()],
        }

    def _generator(self, generator: np.random.Generator) -> Any:
        bits = generator.bit_generator
        seed = bits.seed_seq
        if type(bits).__name__ not in BIT_GENERATORS or type(seed) is not np.random.SeedSequence:
            _refuse(generator)
        try:
            check_seed(seed.state)
        except ValueError:
            _refuse(generator)
        return {
            "kind": type(bits).__name__,
            "state": self.value(bits.state),
            "seed": self.value(seed.state),
        }


class _Reader:
    def __init__(
        self, objects: list[Any], arrays: dict[str, np.ndarray[Any, Any]], packages: set[str]
    ) -> None:
        self._objects = objects
        self._arrays = arrays
        self._packages = packages
        self._made: dict[int, Any] = {}

    def value(self, node: Any) -> Any:
        if node is None or isinstance(node, bool | str | int | float):
            return node
        makers: dict[str, Callable[[Any], Any]] = {
            "object": lambda node: self._object(node["object"]),
            "scalar": self._scalar,
            "enum": lambda node: self._class(node["enum"], Enum).__members__[node["name"]],
            "class": lambda node: self._class(node["class"], object),
            "named": lambda node: tuple.__new__(
                self._class(node["named"], tuple), self._values(node["tuple"])
            ),
            "tuple": lambda node: tuple(self._values(node["tuple"])),
            "frozenset": lambda node: frozenset(self._keys(node["frozenset"])),
        }
        return makers[list(node)[0]](node)  # noqa: RUF015 - StopIteration would end a loop

    def _values(self, nodes: Any) -> list[Any]:
        return [self.value(node) for node in nodes]

    def _keys(self, nodes: Any) -> list[Any]:
        """Return members of a set or keys of a dictionary, which are hashed."""
        if any(map(_has_object, nodes)):
            raise ValueError("a member of a set or a key of a dictionary is an object")
        keys = self._values(nodes)
        _check_hashes(keys)
        return keys

    def _scalar(self, node: Any) -> Any:
        dtype, value = np.dtype(node["scalar"]), node["value"]
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise ValueError(f"there is no number of kind {dtype}")
        if not isinstance(value, bool | int | float):
            raise ValueError(f"a number must be one but is {type(value).__name__}")
        return dtype.type(value)

    def _object(self, number: int) -> Any:
        if number not in self._made:
            self._make(number, self._objects[number])
        return self._made[number]

    def _make(self, number: int, node: Any) -> None:
        """Make an object, known before its parts so that they may refer to it."""
        if "array" in node:
            array = self._arrays[f"a{node['array']}"]
            array.setflags(write=node["writeable"])
            self._made[number] = array
        elif "generator" in node:
            self._made[number] = self._generator(node["generator"])
        elif "list" in node:
            items: list[Any] = []
            self._made[number] = items
            items.extend(self._values(node["list"]))
        elif "set" in node:
            self._made[number] = set(self._keys(node["set"]))
        elif "instance" in node:
            kind = self._class(node["instance"], object)
            self._made[number] = instance = object.__new__(kind)
            names = [_attribute(kind, key) for key, _ in node["dict"]]
            items = self._values(item for _, item in node["dict"])
            vars(instance).update(zip(names, items, strict=True))
        else:
            entries: dict[Any, Any] = {}
            self._made[number] = entries
            keys = self._keys([key for key, _ in node["dict"]])
            items = self._values(item for _, item in node["dict"])
            entries.update(zip(keys, items, strict=True))

    def _generator(self, node: Any) -> np.random.Generator:
        if node["kind"] not in BIT_GENERATORS:
            raise ValueError(f"there is no bit generator {node['kind']}")
        start = self.value(node["seed"])
        check_seed(start)
        bits = getattr(np.random, node["kind"])(np.random.SeedSequence(**start))
        state = self.value(node["state"])
        check_state(state)
        bits.state = state
        return np.random.Generator(bits)

    def _class(self, name: str, kind: type) -> Any:
        module, _, path = name.partition(":")
        if module.partition(".")[0] not in self._packages or module.endswith(".__main__"):
            raise ValueError(f"{module} is not a package whose classes may be made")
        import_module(module)
        found = _class_at(module, path)
        if found is None or not issubclass(found, kind):
            raise ValueError(f"{name} is not a class of that module, or not of the kind it must be")
        return found


def _check_hashes(keys: list[Any]) -> None:
    """Refuse keys of one hash, such as multiples of 2^61 - 1, whose time grows with their square.

    What is counted are hashes, of which few can have one hash again.
    """
    alike = Counter(map(hash, keys)).values()
    if max(alike, default=0) > _MOST_ALIKE:
        raise ValueError("members of a set or keys of a dictionary have the same hash")


def _has_object(node: Any) -> bool:
    """Return whether there are objects in a value, whose hash could take any time.

    They may be shared: an instance that is hashed by its parts, each of them twice the next one.
    """
    if not isinstance(node, dict):
        return False
    return "object" in node or any(map(_has_object, node.get("tuple", ())))


def _attribute(kind: type, key: Any) -> str:
    """Return the name of an attribute, which must not hide a method."""
    if not isinstance(key, str):
        raise ValueError(f"the name of an attribute is {type(key).__name__}")
    found = getattr_static(kind, key, None)
    if callable(found) or isinstance(found, classmethod):
        raise ValueError(f"an attribute is called {key!r:.50}")
    return key


def _class_at(module: str, path: str) -> type | None:
    """Return the class that a module defines at a path; what it has only imported is not its."""
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
        if not isinstance(found, type):
            return None
    return found if (found.__module__, found.__qualname__) == (module, path) else None


def _name(cls: type) -> str:
    if _class_at(cls.__module__, cls.__qualname__) is not cls:
        raise InvalidParameter(
            f"a state to be saved must be of classes that a module defines but has {cls!r}."
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def _is_plain(value: Any) -> bool:
    """Return whether an instance is its ``__dict__`` and nothing else."""
    if not hasattr(value, "__dict__") or callable(value):
        return False
    slots = {slot for base in type(value).__mro__ for slot in getattr(base, "__slots__", ())}
    try:
        object.__new__(type(value))  # not that of a subclass of int, or of a file
    except TypeError:
        return False
    return slots <= {"__dict__", "__weakref__"}


def _refuse(value: Any) -> NoReturn:
    shown = " ".join(repr(value).split())[:200]
    raise InvalidParameter(
        f"a state to be saved must be plain data but has {shown} ({type(value).__name__})."
    )
