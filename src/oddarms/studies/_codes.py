"""Errors by the code that they have on the wire: the server says it, the client raises it again."""

from __future__ import annotations

from oddarms import errors

CODES: dict[type[errors.OddarmsError], tuple[str, int]] = {
    errors.RewardRejected: ("reward-rejected", 422),
    errors.UnknownStudy: ("unknown-study", 404),
    errors.DuplicateStudy: ("duplicate-study", 409),
    errors.UnknownAlgorithm: ("unknown-algorithm", 422),
    errors.UnknownOption: ("unknown-option", 422),
    errors.InvalidParameter: ("invalid-parameter", 422),
    errors.MissingExtra: ("missing-extra", 501),
    errors.StoreFailed: ("store-failed", 500),
    errors.OddarmsError: ("failed", 500),
}
"""Code and status of every kind of error; the first class that fits counts."""

CLASSES: dict[str, type[errors.OddarmsError]] = {
    code: kind
    for kind, (code, _) in CODES.items()
    if kind not in (errors.StoreFailed, errors.OddarmsError)
} | {"invalid-request": errors.InvalidParameter}
"""The error of each code; any other is that of a storage that failed."""

TOO_MANY_GUESSES = "too-many-guesses"
"""Of the answer to a wrong token after some others, also if it is the same one again."""

HURRY = "x-oddarms-hurry"
"""A header: wait for a lock for a moment only."""
