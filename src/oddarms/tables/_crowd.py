"""Arms for the paper's experiments, from a file in any of the layouts that crowds come in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, brief
from oddarms.tables._files import STDIN, Source, name_of, opened_table, opened_text, pandas_of
from oddarms.tables._reading import read_rewards

_LAYOUTS = (("arm", "reward"), ("arm", "mean"), ("worker", "label", "gold"))


@dataclass(frozen=True, eq=False)
class RecordedArms:
    """Arms whose rewards or means were read from a file.

    Attributes
    ----------
    labels
        The arms' names, in the order of first appearance.
    means
        The mean of each arm; where single rewards are known, their average.
    records
        Each arm's recorded rewards, or None where only the means are known.
    left_out
        The number of responses without a gold label, which are in no record.
    source
        The name of the file.
    layout
        The columns that were read, as "arm,reward" or "worker item label".
    """

    labels: tuple[str, ...]
    means: FloatArray
    records: dict[str, FloatArray] | None
    left_out: int
    source: str
    layout: str = ""

    @property
    def binary(self) -> bool:
        """True if all rewards are 0 or 1; arms of which only means are known are simulated so."""
        if self.records is None:
            return True
        return all(np.isin(rewards, (0.0, 1.0)).all() for rewards in self.records.values())


def read_arms(path: Source, *, gold: Source | None = None) -> RecordedArms:
    """Return the arms that a file describes, in whichever of these layouts it has.

    - A table with a header, its columns separated by commas, semicolons or tabs: ``arm,reward``
      with a row per pull, ``arm,mean`` with a row per arm, or ``worker,label,gold`` with a row per
      response. Other columns are ignored.
    - The layout of the SQUARE benchmark: lines ``worker item label`` without a header, and a
      second file with lines ``item label``.

    A worker is an arm, and the reward of a response is 1 if its label differs from the gold one,
    as numbers where both are numbers and otherwise as text. Responses without a gold label are
    left out and counted.

    Parameters
    ----------
    path
        The file, plain or compressed with gzip, in UTF-8.
    gold
        The second file of SQUARE's layout.

    Notes
    -----
    SQUARE is given files with lines `worker item label` but itself writes ``responses_eval.txt``
    and others with lines `item worker label`. Items are the column that has more than twice as
    many of the gold file's items, else the second. `RecordedArms.layout` says what was read.
    """
    columns = _layout_of(path)
    if columns is not None and gold is not None:
        raise InvalidParameter(f"Leave gold out: {name_of(path)} is a table with a header.")
    left_out, layout = 0, ",".join(columns or ())
    if columns is None:
        responses, layout = _square(Path(path), gold)
        records, left_out = _judged(path, responses)
    elif "gold" in columns:
        with opened_table(path, columns) as table:
            places = [table.place(column, column) for column in columns]
            responses = pandas_of("reading a crowd").concat(table.frames(places, []))[places]
        records, left_out = _judged(path, responses.set_axis(columns, axis=1))
    else:
        records = read_rewards(path, reward=columns[1]).by_label()
    if len(records) < 2:
        only = brief(next(iter(records)))
        raise InvalidParameter(f"{path} must have at least 2 arms but has only {only}.")
    known: dict[str, FloatArray] | None = records
    if layout == "arm,mean":
        known = None
        for label, means in records.items():
            if means.size > 1:
                raise InvalidParameter(f"{path}: the arm {brief(label)} has two means.")
    averages = np.array([rewards.mean() for rewards in records.values()])
    return RecordedArms(tuple(records), averages, known, left_out, Path(path).name, layout)


def _layout_of(path: Source) -> tuple[str, ...] | None:
    """Return the columns of a table with a header, or None for SQUARE's layout."""
    if str(path) == STDIN:
        raise InvalidParameter("data must be a file, as it is read more than once.")
    with opened_text(path) as text:
        line = next((line for line in text if line.strip()), "")
    names = {name.strip(" \"'\r\n").casefold() for name in re.split("[,;\t|]", line)}
    for layout in _LAYOUTS:
        if names.issuperset(layout):
            return layout
    header = {name for layout in _LAYOUTS for name in layout}.intersection(line.casefold().split())
    if len(line.split()) < 3 or len(header) > 1:
        known = " or ".join(",".join(layout) for layout in _LAYOUTS)
        raise InvalidParameter(
            f"{path} must have a header with the columns {known}, or lines 'worker item label', but"
            f" begins with {brief(line.strip())}."
        )
    return None


def _judged(path: Source, responses: Any) -> tuple[Any, int]:
    """Return each worker's rewards, 1 where label and gold differ, and the rows without gold."""
    to_numeric = pandas_of("reading a crowd").to_numeric
    texts = responses.fillna("").apply(lambda column: column.str.strip())
    known = texts[texts["gold"] != ""]
    if known.empty:
        raise InvalidParameter(
            f"{path} must have responses with a gold label but none of the {len(texts):,} has one."
        )
    label, gold = (to_numeric(known[name], errors="coerce") for name in ("label", "gold"))
    same = (known["label"] == known["gold"]) | (label == gold)
    wrong = (~same).astype(float).groupby(known["worker"], sort=False)
    records = {worker: rewards.to_numpy() for worker, rewards in wrong}
    return records, len(texts) - len(known)


def _square(path: Path, gold: Source | None) -> tuple[Any, str]:
    """Return the responses of SQUARE's layout, and the order of its columns."""
    if gold is None:
        raise InvalidParameter(
            f"{path} must come with a file of gold labels: give gold (--gold FILE)."
        )
    items = _fields(Path(gold), ["item", "gold"]).drop_duplicates()
    twice = items["item"][items["item"].duplicated()]
    if len(twice):
        raise InvalidParameter(f"{gold}: the item {brief(twice.iloc[0])} has two gold labels.")
    responses = _fields(path, ["worker", "item", "label"])
    found = [len(set(responses[name]) & set(items["item"])) for name in ("worker", "item")]
    if found[0] > 2 * found[1]:
        responses.columns = ["item", "worker", "label"]
    layout = " ".join(responses.columns)
    return responses.merge(items, on="item", how="left"), layout


def _fields(path: Path, names: list[str]) -> Any:
    """Return a file without a header, whose columns are separated by tabs or blanks."""
    pandas = pandas_of("reading a crowd")
    with opened_text(path) as text:
        try:
            frame = pandas.read_csv(text, sep=r"\s+", header=None, dtype=str, na_filter=False)
        except pandas.errors.EmptyDataError:
            raise InvalidParameter(f"{path} must have rows but is empty.") from None
        except pandas.errors.ParserError:
            frame = pandas.DataFrame()
    if frame.shape[1] != len(names) or (frame == "").any(axis=None):
        raise InvalidParameter(f"{path} must have lines {' '.join(names)!r} but has others.")
    return frame.set_axis(names, axis=1)
