"""A new study from a form: labels typed in, or a file that was uploaded."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K, FloatArray, Label, Question
from oddarms.server._limits import check_arms
from oddarms.tables import read_labels, read_labels_of, read_rewards
from oddarms.tables._columns import columns_in, first_column
from oddarms.tables._lines import opened

USUAL = {
    "name": "",
    "arms": "",
    "arm": "",
    "reward": "",
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
REMEDIES = {
    "--encoding": "save it as UTF-8",
    "--missing": "fill it in, or leave the row out",
    "--fresh": "create a new study",
    "--bounds": "the smallest and the largest reward are fields of this form",
}
"""What to do here, by the option that a message names for the shell."""
MOST_BUDGET = 10**15

_GROUPED = re.compile(r"[0-9]{1,3}(?:[ ,_'\u202f\u00a0][0-9]{3})+|[0-9]+")
_AMBIGUOUS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
"""A thousand and more to some readers, and less than a thousand to others."""


@dataclass(frozen=True)
class Upload:
    """A file that was uploaded, under the name that it has where it comes from."""

    content: bytes
    name: str = ""


@dataclass(frozen=True)
class NewStudy:
    """What a form asks for: a name, a question, and rewards that are there already."""

    name: str
    question: Question
    rewards: Mapping[Any, FloatArray]


def given_of(form: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a form as text; those that are missing as they are at first."""
    texts = {key: form.get(key) for key in USUAL}
    return {key: text if isinstance(text, str) else USUAL[key] for key, text in texts.items()}


def new_study(given: Mapping[str, str], table: Upload | None) -> NewStudy:
    """Return the study that a form asks for, whole and checked."""
    try:
        return _new_study(given, table)
    except InvalidParameter as error:
        raise InvalidParameter(in_words_of_the_form(str(error))) from None


def in_words_of_the_form(said: str) -> str:
    """Return a message with the names of fields, and remedies that the form has.

    Examples
    --------
    >>> in_words_of_the_form("delta must be less than 1 but got 7.0.")
    'permitted error must be less than 1 but got 7.0.'
    """
    for word, field in FIELDS.items():
        said = re.sub(rf"^{word}\b", field, said)
    for option, remedy in REMEDIES.items():
        said = re.sub(rf": [^:]*{option}\b.*", f": {remedy}.", said, flags=re.DOTALL)
    return said


def _new_study(given: Mapping[str, str], table: Upload | None) -> NewStudy:
    bounds = (number("smallest reward", given["low"]), number("largest reward", given["high"]))
    typed = [line.strip() for line in given["arms"].splitlines() if line.strip()]
    if typed and table:
        raise InvalidParameter("arms must be typed in or come from a file but both are there.")
    rewards: Mapping[Any, FloatArray] = {}
    labels: list[Label] = list(typed)
    if table:
        labels, rewards = _from_table(table, given["arm"].strip(), given["reward"].strip(), bounds)
    if not labels:
        raise InvalidParameter(
            "arms must be typed in, one a line, or come from a file but got none."
        )
    check_arms(len(labels))
    words: dict[str, Any] = {
        "k": number("k", given["k"]),
        "delta": number("permitted error", given["delta"]),
        "margin": number("margin", given["margin"] or "0"),
        "side": given["side"],
        "bounds": bounds,
        "budget": budget_of(given["budget"]),
    }
    return NewStudy(given["name"].strip(), Question(labels, **words), rewards)


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


def _from_table(
    table: Upload, arm: str, reward: str, bounds: tuple[float, float]
) -> tuple[list[Label], Mapping[Any, FloatArray]]:
    """Return the labels of a table, and its rewards if it has a column of them."""
    with tempfile.TemporaryDirectory(prefix="oddarms-") as folder:
        path = Path(folder) / "table"
        path.write_bytes(table.content)
        try:
            if reward:
                arm = arm or _first_column(path)
                recorded = read_rewards(path, arm=arm, reward=reward, bounds=bounds)
                return list(recorded.labels), dict(recorded.records or {})
            if not arm and _is_list(path, table.name):
                return list(read_labels(str(path))), {}
            return list(read_labels_of(path, arm or None)), {}
        except InvalidParameter as error:
            raise InvalidParameter(str(error).replace(str(path), "the file")) from None


def _is_list(path: Path, name: str) -> bool:
    """Return whether a file has a label a line and no header, as `--arms` of the shell takes it."""
    if name.casefold().endswith(".txt"):
        return True
    with opened(path) as lines:
        return len(columns_in(lines.first())) == 1


def _first_column(path: Path) -> str:
    with opened(path) as lines:
        return first_column(lines)
