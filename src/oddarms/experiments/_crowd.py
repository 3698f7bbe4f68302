"""The workers of Figure 3: recorded ones from a file, or the simulated crowd."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.arms import Bernoulli, Resampled, SimulatedArms, crowd_error_rates
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, brief
from oddarms.tables import opened_table, read_rewards

STAND_IN = "synthetic stand-in for HyunCatherines"
_LAYOUTS = (("arm", "reward"), ("arm", "mean"), ("worker", "label", "gold"))


@dataclass(frozen=True, eq=False)
class Crowd:
    """Workers whose error rates are known.

    Attributes
    ----------
    arms
        Simulated arms with the workers' error rates as means.
    description
        What they are, for captions and tables.
    real
        False for the stand-in.
    left_out
        The number of responses without a gold label, which do not count.
    columns
        The columns that were read.
    """

    arms: SimulatedArms
    description: str
    real: bool = True
    left_out: int = 0
    columns: tuple[str, ...] = ()

    @classmethod
    def stand_in(cls) -> Crowd:
        """Return the simulated crowd."""
        return cls(Bernoulli(crowd_error_rates()), STAND_IN, real=False)


def read_crowd(path: str | PathLike[str]) -> Crowd:
    """Return the workers that a table describes.

    Parameters
    ----------
    path
        A CSV, Excel or Parquet file with the columns ``arm,reward`` (a row per reward),
        ``arm,mean`` (a row per worker) or ``worker,label,gold`` (a row per response). Other columns
        are ignored. The reward of a response is 1 if its label differs from the gold one, as
        numbers where both are numbers and otherwise as text. Rewards other than 0 and 1 are drawn
        again from the recorded ones.
    """
    if str(path) == "-":
        raise InvalidParameter("data must be a file, not stdin, as it is read more than once.")
    left_out = 0
    with opened_table(path, [column for layout in _LAYOUTS for column in layout]) as table:
        layout = next((one for one in _LAYOUTS if all(map(table.places, one))), None)
        if layout is None:
            raise InvalidParameter(
                f"{path} must have the columns {' or '.join(map(','.join, _LAYOUTS))}, but its"
                f" columns are {table.listed()}."
            )
        if "gold" in layout:
            places = [table.place("data", column) for column in layout]
            records, left_out = _errors(str(path), table.frames(places, []), places)
    if "gold" not in layout:
        records = read_rewards(path, reward=layout[1]).by_label()
    if len(records) < 2:
        raise InvalidParameter(
            f"{path} must have at least 2 arms but has only {brief(next(iter(records)))}."
        )
    if "mean" in layout:
        twice = next((label for label, means in records.items() if means.size > 1), None)
        if twice is not None:
            raise InvalidParameter(f"{path}: the arm {brief(twice)} has two means.")
    binary = all(np.isin(rewards, (0.0, 1.0)).all() for rewards in records.values())
    arms: SimulatedArms = Resampled(records)
    if binary or "mean" in layout:
        arms = Bernoulli([rewards.mean() for rewards in records.values()])
    return Crowd(arms, Path(path).name, left_out=left_out, columns=layout)


def _errors(
    name: str, frames: Iterable[Any], places: list[int]
) -> tuple[dict[Any, FloatArray], int]:
    """Return each worker's errors, 1 where label and gold differ, and the rows without gold."""
    import pandas

    rows = pandas.concat(frames)[places].set_axis(["worker", "label", "gold"], axis=1)
    texts = rows.astype(object).fillna("").apply(lambda column: column.astype(str).str.strip())
    known = texts[texts["gold"] != ""]
    if known.empty:
        raise InvalidParameter(f"{name} must have gold labels, but the column gold is empty.")
    label, gold = (pandas.to_numeric(known[one], errors="coerce") for one in ("label", "gold"))
    wrong = (known["label"] != known["gold"]) & (label != gold)
    records = wrong.astype(float).groupby(known["worker"], sort=False)
    return {worker: errors.to_numpy() for worker, errors in records}, len(texts) - len(known)
