"""Which generators of random numbers are saved, and read again.

numpy trusts the states that it is given: it reads outside a buffer where a state says so, and it
expands seeds of lists in lists, of which a few that are shared stand for any number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_POSITIONS = {"pos": 624, "buffer_pos": 4}
"""Of bit generators: how far they are in their buffer, which numpy does not check."""
_LARGEST_POOL = 256
"""Of a SeedSequence, whose work grows with the square of its pool; 4 is usual."""
_MOST_BITS = 4096
_MOST_NUMBERS = 4096
"""Of a seed; 624 of 32 bits are the longest that are usual."""


def check_seed(seed: Any) -> None:
    """Raise ValueError unless the state of a SeedSequence is one of flat, bounded numbers."""
    if not _is_number(seed["pool_size"]) or seed["pool_size"] > _LARGEST_POOL:
        raise ValueError(f"a pool of seeds must have at most {_LARGEST_POOL} words")
    if not _is_number(seed["n_children_spawned"]):
        raise ValueError("the children of a seed must be a number")
    if not _is_number(seed["entropy"]) and not _is_flat(seed["entropy"], tuple | list | np.ndarray):
        raise ValueError("the entropy of a seed must be a number or a flat list of numbers")
    if not _is_flat(seed["spawn_key"], tuple):
        raise ValueError("the key of a seed must be a flat tuple of numbers")


def check_state(state: Any) -> None:
    """Raise ValueError unless a bit generator would read in its buffer, and of flat parts."""
    for part in (state, state["state"]):
        for name, value in part.items():
            inner = part is state and name == "state"
            if not inner and not isinstance(value, int | str | np.generic | np.ndarray):
                raise ValueError(f"a bit generator has a part that is {type(value).__name__}")
        for name in part.keys() & _POSITIONS.keys():
            if type(part[name]) is not int or not 0 <= part[name] <= _POSITIONS[name]:
                raise ValueError(f"a bit generator has a wrong {name}")


def _is_flat(values: Any, kind: Any) -> bool:
    if not isinstance(values, kind) or len(values) > _MOST_NUMBERS:
        return False
    return all(map(_is_number, values))


def _is_number(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and value >= 0 and int(value).bit_length() <= _MOST_BITS
