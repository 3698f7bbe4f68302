"""Strict parsing of JSON from outside: no duplicate keys, errors in one line."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parsed(text: str) -> Any:
    """Return the value of a JSON text, without NaN, infinity and duplicate keys.

    A `ValueError` says in half a sentence what is wrong.

    Examples
    --------
    >>> parsed('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:60]!a} appears twice")
        found[name] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid in JSON")
