"""A new study from a form: labels typed in, or a file that was uploaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K, Question
from oddarms.server._limits import check_arms

USUAL = {
    "name": "",
    "arms": "",
    "k": f"{DEFAULT_K:g}",
    "margin": "0.05",
    "side": "upper",
    "low": "0",
    "high": "1",
    "delta": f"{DEFAULT_DELTA:g}",
    "budget": "",
}
"""What the form has at first."""
FIELDS = {"delta": "permitted error", "bounds": "smallest and largest reward"}
"""Words of the question that the form calls otherwise."""
MOST_BUDGET = 10**15

_GROUPED = re.compile(r"[0-9]{1,3}(?:[ ,_'\u202f\u00a0][0-9]{3})+|[0-9]+")
_AMBIGUOUS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
"""A thousand and more to some readers, and less than a thousand to others."""


@dataclass(frozen=True)
class Upload:
    """A file that was uploaded, under the name that it has where it comes from."""

    content: bytes
    name: str = ""


def given_of(form: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a form as text; those that are missing as they are at first."""
    texts = {key: form.get(key) for key in USUAL}
    return {key: text if isinstance(text, str) else USUAL[key] for key, text in texts.items()}


def new_study(given: Mapping[str, str], file: Upload | None) -> tuple[str, Question]:
    """Return name and question of the study that a form asks for, checked."""
    try:
        return _new_study(given, file)
    except InvalidParameter as error:
        raise InvalidParameter(in_words_of_the_form(str(error))) from None


def in_words_of_the_form(said: str) -> str:
    """Return a message with the names that the form has for fields.

    Examples
    --------
    >>> in_words_of_the_form("delta must be less than 1 but got 7.0.")
    'permitted error must be less than 1 but got 7.0.'
    """
    for word, field in FIELDS.items():
        said = re.sub(rf"^{word}\b", field, said)
    return said


def _new_study(given: Mapping[str, str], file: Upload | None) -> tuple[str, Question]:
    bounds = (number("smallest reward", given["low"]), number("largest reward", given["high"]))
    typed = [line.strip() for line in given["arms"].splitlines() if line.strip()]
    if typed and file:
        raise InvalidParameter("arms are typed in and in a file: leave one of them out.")
    labels = _labels(file) if file else typed
    if not labels:
        raise InvalidParameter("arms are missing: type them in, one a line, or choose a file.")
    check_arms(len(labels))
    words: dict[str, Any] = {
        "k": number("k", given["k"]),
        "delta": number("permitted error", given["delta"]),
        "margin": number("margin", given["margin"] or "0"),
        "side": given["side"],
        "bounds": bounds,
        "budget": budget_of(given["budget"]),
    }
    return given["name"].strip(), Question(labels, **words)


def number(name: str, text: str) -> float:
    """Return a number that was typed in."""
    plain = text.strip()
    if _AMBIGUOUS.fullmatch(plain):
        whole, fraction = plain.replace(",", ""), plain.replace(",", ".")
        raise InvalidParameter(
            f"{name} must be a number without marks between thousands but got {plain!r}: write"
            f" {whole} or {fraction}."
        )
    try:
        return float(plain.replace(",", "."))
    except ValueError:
        raise InvalidParameter(f"{name} must be a number but got {plain!r:.60}.") from None


def budget_of(text: str) -> int | None:
    """Return a budget that was typed in; None for no limit."""
    plain = text.strip()
    if not plain:
        return None
    digits = re.sub(r"[^0-9]", "", plain) if _GROUPED.fullmatch(plain) else ""
    if not digits or len(digits) > len(str(MOST_BUDGET)) or int(digits) > MOST_BUDGET:
        raise InvalidParameter(
            f"budget must be a whole number of at most {MOST_BUDGET:,}, or empty, but got"
            f" {text!r:.60}."
        )
    return int(digits)


def _labels(file: Upload) -> list[str]:
    """Return the labels in a file: text, one a line."""
    try:
        text = file.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidParameter(
            "the file must be text in UTF-8 with one label a line: save a table or an archive as"
            " such."
        )
    labels = [line.strip() for line in text.splitlines() if line.strip()]
    plain = file.name.casefold().endswith(".txt")
    if labels and not plain and re.search("[,;\t]", labels[0]):
        raise InvalidParameter(
            "the file must have one label a line and no other columns. A file of labels with commas"
            " in them needs a name that ends in .txt; `oddarms study import` takes tables."
        )
    return labels
