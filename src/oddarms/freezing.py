"""Objects as bytes and back, without pickle: a tree of plain values beside numpy arrays.

Only classes of packages that the reader names are made again, and none of their code is run but
``__new__``, so that a file from elsewhere can hold wrong figures but no program.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np

from oddarms.errors import InvalidParameter

_TREE = "tree"
_FORMAT = 1


def freeze(value: Any) -> bytes:
    """Return an object as bytes; the same object gives the same bytes.

    Plain values, containers, numpy arrays and generators, enumerations, classes and instances with
    a ``__dict__``. What is shared inside stays shared. Functions cannot be frozen.
    """
    writer = _Writer()
    root = writer.value(value)
    tree = json.dumps({"format": _FORMAT, "root": root, "objects": writer.objects})
    arrays = {f"a{i}": array for i, array in enumerate(writer.arrays)}
    return _packed({_TREE: np.frombuffer(tree.encode(), dtype=np.uint8), **arrays})


def thaw(data: bytes, packages: Iterable[str] = ()) -> Any:
    """Return the object that was frozen.

    Parameters
    ----------
    data
        What `freeze` returned.
    packages
        Packages beside oddarms whose classes may be made.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        tree = json.loads(arrays.pop(_TREE).tobytes())
        return _Reader(tree["objects"], arrays, {"oddarms", *packages}).value(tree["root"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, zipfile.BadZipFile) as bad:
        raise InvalidParameter(
            f"a saved state must be whole but this one is damaged: {bad}"
        ) from bad


def _packed(arrays: dict[str, np.ndarray[Any, Any]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy")  # its date is always 1980: same bytes each time
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, content.getvalue())
    return buffer.getvalue()


class _Writer:
    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # an id is unique only while its object lives

    def value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str) or type(value) in (int, float):
            return value
        if isinstance(value, np.generic):
            return {"scalar": value.dtype.str, "value": value.item()}
        if isinstance(value, Enum):
            return {"enum": _name(type(value)), "value": value.value}
        if isinstance(value, type):
            return {"class": _name(value)}
        if isinstance(value, tuple):
            items = [self.value(item) for item in value]
            return (
                {"tuple": items}
                if type(value) is tuple
                else {"named": _name(type(value)), "tuple": items}
            )
        if isinstance(value, frozenset):
            return {"frozenset": [self.value(item) for item in sorted(value)]}
        return {"object": self._object(value)}

    def _object(self, value: Any) -> int:
        if id(value) in self._known:
            return self._known[id(value)]
        number = self._known[id(value)] = len(self.objects)
        self._kept.append(value)
        self.objects.append(None)
        self.objects[number] = self._content(value)
        return number

    def _content(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            self.arrays.append(value)
            return {"array": len(self.arrays) - 1, "writeable": bool(value.flags.writeable)}
        if isinstance(value, np.random.Generator):
            return {"generator": self._generator(value)}
        if isinstance(value, list):
            return {"list": [self.value(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.value(key), self.value(item)] for key, item in value.items()]}
        if not hasattr(value, "__dict__") or callable(value):
            raise InvalidParameter(f"a state to be saved must be plain data but has {value!r}.")
        return {
            "instance": _name(type(value)),
            "dict": [[k, self.value(v)] for k, v in vars(value).items()],
        }

    def _generator(self, generator: np.random.Generator) -> Any:
        bits = generator.bit_generator
        seed = bits.seed_seq
        return {
            "kind": type(bits).__name__,
            "state": self.value(bits.state),
            "seed": self.value(seed.state) if isinstance(seed, np.random.SeedSequence) else None,
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
        if not isinstance(node, dict):
            return node
        makers: dict[str, Callable[[Any], Any]] = {
            "object": lambda node: self._object(node["object"]),
            "scalar": lambda node: np.dtype(node["scalar"]).type(node["value"]),
            "enum": lambda node: self._class(node["enum"])(node["value"]),
            "class": lambda node: self._class(node["class"]),
            "named": lambda node: self._class(node["named"])._make(map(self.value, node["tuple"])),
            "tuple": lambda node: tuple(map(self.value, node["tuple"])),
            "frozenset": lambda node: frozenset(map(self.value, node["frozenset"])),
        }
        return makers[next(iter(node))](node)

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
            items.extend(map(self.value, node["list"]))
        elif "instance" in node:
            cls = self._class(node["instance"])
            self._made[number] = instance = cls.__new__(cls)
            vars(instance).update({key: self.value(item) for key, item in node["dict"]})
        else:
            entries: dict[Any, Any] = {}
            self._made[number] = entries
            entries.update({self.value(key): self.value(item) for key, item in node["dict"]})

    def _generator(self, node: Any) -> np.random.Generator:
        if node["kind"] not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
            raise ValueError(f"there is no bit generator {node['kind']}")
        seed = None if node["seed"] is None else np.random.SeedSequence(**self.value(node["seed"]))
        bits = getattr(np.random, node["kind"])(seed)
        bits.state = self.value(node["state"])
        return np.random.Generator(bits)

    def _class(self, name: str) -> Any:
        module, _, path = name.partition(":")
        if module.partition(".")[0] not in self._packages:
            raise ValueError(f"{module} is not a package whose classes may be made")
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        if not isinstance(found, type):
            raise ValueError(f"{name} is not a class")
        return found


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
