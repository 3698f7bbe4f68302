"""A new study from a form: labels typed in, or a CSV file that was uploaded."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K, FloatArray, Label, Question
from oddarms.server._limits import check_arms
from oddarms.tables import read_labels_of, read_rewards
from oddarms.tables._columns import first_column
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


def new_study(given: Mapping[str, str], table: bytes | None) -> NewStudy:
    """Return the study that a form asks for, whole and checked."""
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
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        raise InvalidParameter(f"{name} must be a number but got {text.strip()!r:.60}.") from None


def budget_of(text: str) -> int | None:
    """Return a budget that was typed in; None for no limit."""
    plain = "".join(character for character in text if character not in " ,_'\u202f\u00a0")
    if not plain:
        return None
    if not plain.isascii() or not plain.isdigit() or len(plain) > 30:
        raise InvalidParameter(f"budget must be a whole number or empty but got {text!r:.60}.")
    return int(plain)


def _from_table(
    content: bytes, arm: str, reward: str, bounds: tuple[float, float]
) -> tuple[list[Label], Mapping[Any, FloatArray]]:
    """Return the labels of a table, and its rewards if it has a column of them."""
    with tempfile.TemporaryDirectory(prefix="oddarms-") as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(content)
        try:
            if reward:
                arm = arm or _first_column(path)
                recorded = read_rewards(path, arm=arm, reward=reward, bounds=bounds)
                return list(recorded.labels), dict(recorded.records or {})
            return list(read_labels_of(path, arm or None)), {}
        except InvalidParameter as error:
            raise InvalidParameter(str(error).replace(str(path), "the file")) from None


def _first_column(path: Path) -> str:
    with opened(path) as lines:
        return first_column(lines)
