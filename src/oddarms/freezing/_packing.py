"""Arrays as bytes and back: a ZIP file of arrays, of which no more is read than goes with its size.

A few bytes can stand for gigabytes, in a deflated entry or in the header of an array. So an entry
is inflated piece by piece, against what all of them may have, and the memory of an array is that of
its bytes.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FREE_BYTES = 64 * 2**20
"""What any data may inflate to."""
RATIO = 64
"""What each byte of it adds."""
TREE_SHARE = 16
"""The tree has at most this part of it, as it takes many times its size once it is parsed."""
_PIECE = 2**20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def packed(arrays: Mapping[str, Array], expected: int) -> bytes:
    """Return arrays as bytes, deflated unless `unpacked` would take that for a bomb.

    The first array is the tree.
    """
    parts = {f"{name}.npy": _written(array) for name, array in arrays.items()}
    tree, total = len(next(iter(parts.values()))), sum(map(len, parts.values()))
    data = _zipped(parts, zipfile.ZIP_DEFLATED)
    if _allows(expected, len(data), tree, total):
        return data
    return _zipped(parts, zipfile.ZIP_STORED)


def unpacked(data: bytes, expected: int, tree: str) -> dict[str, Array]:
    """Return the arrays of some data; ValueError if they are too large or not whole.

    Parameters
    ----------
    data
        What `packed` returned.
    expected
        How many bytes are expected, whatever the size of the data.
    tree
        The name of the array with the tree.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in file.infolist()}
        if len(entries) < len(file.infolist()):
            raise ValueError("two entries have one name")
        total = sum(entry.file_size for entry in entries.values())
        if not _allows(expected, len(data), entries[tree].file_size, total):
            raise ValueError(f"{len(data):,} bytes would become {total:,}")
        return {name: _read(_inflated(file, entry)) for name, entry in entries.items()}


def _allows(expected: int, size: int, tree: int, total: int) -> bool:
    most = FREE_BYTES + expected + RATIO * size
    return total <= most and tree <= most // TREE_SHARE


def _zipped(parts: Mapping[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method, compresslevel=1) as file:
        for name, part in parts.items():
            entry = zipfile.ZipInfo(name)  # its date is always 1980: same bytes each time
            entry.compress_type = method
            file.writestr(entry, part)
    return buffer.getvalue()


def _inflated(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return an entry as a whole; at its end its sum is checked."""
    if entry.compress_type not in _METHODS:
        raise ValueError(f"an entry is compressed by method {entry.compress_type}")
    content = io.BytesIO()
    with file.open(entry) as stream:
        while piece := stream.read(_PIECE):  # a plain read would inflate before it looks
            content.write(piece)
            if content.tell() > entry.file_size:
                raise ValueError("an entry is larger than it says")
    if content.tell() < entry.file_size:
        raise ValueError("an entry is smaller than it says")
    return content.getvalue()


def _written(array: Array) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, array, allow_pickle=False)
    return content.getvalue()


def _read(part: bytes) -> Array:
    """Return an array whose header is that of the bytes behind it."""
    content = io.BytesIO(part)
    version = np.lib.format.read_magic(content)
    if version == (1, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(content)
    elif version == (2, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_2_0(content)
    else:
        raise ValueError(f"an array is of version {version}")
    if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"there is no array of {dtype} and shape {shape}")
    behind = len(part) - content.tell()
    if math.prod(shape) * dtype.itemsize != behind:
        raise ValueError(f"an array of {dtype} and shape {shape} has {behind:,} bytes")
    flat = np.frombuffer(part, dtype, offset=content.tell())
    return flat.reshape(shape, order="F" if by_columns else "C").copy(order="K")
