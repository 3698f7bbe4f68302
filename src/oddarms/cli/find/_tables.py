"""The table of ``oddarms find``, and what a reward without known bounds counts as."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from oddarms.arms import transformed
from oddarms.cli._printing import note
from oddarms.errors import InvalidParameter
from oddarms.problem import UNIT
from oddarms.tables import RecordedArms, Transform, bounds_of, read_counts, read_rewards
from oddarms.text import counted

Bounds = tuple[float, float]


class MissingName(StrEnum):
    """What a row without a reward means."""

    stop = "stop"
    skip = "skip"
    worst = "worst"


Successes = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The table has counts: its column of how many rewards are 1."
    ),
]
Trials = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="... and its column of how many there are.")
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of the table, such as latin-1 or utf-16.",
        show_default="by its first bytes, else utf-8",
    ),
]
MissingChoice = Annotated[
    MissingName,
    typer.Option(
        help="A row without a reward: stop; skip it, which is sound only if being missing has"
        " nothing to do with the reward; or count it as the worst reward."
    ),
]
Clip = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Rewards have no bounds: count those outside A,B as the nearer end.",
    ),
]
Above = Annotated[
    float | None,
    typer.Option(
        metavar="VALUE",
        help="Rewards have no bounds: ask for the share of samples above this.",
    ),
]


def limits_of(
    bounds: str | None, clip: str | None, above: float | None
) -> tuple[Bounds | None, Transform | None]:
    """Return the bounds that were given, and what rewards count as where they have none."""
    if bounds is not None and (clip is not None or above is not None):
        option = "--clip" if clip is not None else "--above"
        raise InvalidParameter(
            f"--bounds must be left out with {option}, which makes them known, but got {bounds}."
        )
    if bounds is not None and _is_infinite(bounds):
        raise InvalidParameter(
            f"--bounds must be finite but got {bounds}: where rewards have no largest value, give"
            " --clip 0,10 (one outside counts as the nearer end) or --above 0.5 (the share of"
            " samples above)."
        )
    transform = Transform.of(None if clip is None else bounds_of(clip, "clip"), above)
    if transform is not None:
        return transform.bounds, transform
    return (None if bounds is None else bounds_of(bounds)), None


def _is_infinite(bounds: str) -> bool:
    with suppress(ValueError):
        return any(math.isinf(float(part)) for part in bounds.split(","))
    return False


def with_transform(
    function: Callable[[Any], Any], transform: Transform, kind: str, batch: bool
) -> Callable[[Any], Any]:
    """Return what samples, with its rewards transformed; `kind` is that of a command's reward."""
    if kind == "exit-code":
        raise InvalidParameter(
            "--clip and --above must be given with --reward stdout where there is --pull, as an"
            " exit code is a reward of 0 or 1."
        )
    return transformed(function, transform, batch=batch)


def say_clipped(transform: Transform | None, *, quiet: bool) -> None:
    """Tell how many rewards were clipped."""
    said = "" if transform is None or not transform.seen else transform.said()
    if said and not quiet:
        note(said)


@dataclass(frozen=True)
class TableReader:
    """How a table is read."""

    table: Path | None
    arm: str
    reward: str
    successes: str | None
    trials: str | None
    encoding: str | None
    missing: MissingName
    transform: Transform | None

    def check(self, *, named: bool) -> None:
        """Refuse options that do not go together; `named` is whether a column of rewards is."""
        counts = self.successes is not None or self.trials is not None
        if self.table is None and (counts or self.encoding or self.missing is not MissingName.stop):
            raise InvalidParameter(
                "--successes, --trials, --encoding and --missing must be given with --table, which"
                " they are about."
            )
        if counts and (self.successes is None or self.trials is None):
            raise InvalidParameter("--successes and --trials must be given together.")
        if counts and (self.transform is not None or named or self.missing is not MissingName.stop):
            raise InvalidParameter(
                "--successes and --trials must be given without a column of rewards, --clip,"
                " --above and --missing, as what was counted is 0 or 1."
            )

    def read(self, bounds: Bounds | None, side: str | None, *, quiet: bool) -> RecordedArms:
        """Return what the table has, and say what is to be known about it."""
        assert self.table is not None
        limits = bounds or UNIT
        if self.successes is not None and self.trials is not None:
            recorded = read_counts(
                self.table,
                arm=self.arm,
                successes=self.successes,
                trials=self.trials,
                encoding=self.encoding,
            )
        else:
            recorded = read_rewards(
                self.table,
                arm=self.arm,
                reward=self.reward,
                bounds=limits,
                encoding=self.encoding,
                missing=self.missing.value,
                worst=limits[0] if side == "lower" else limits[1],
                transform=self.transform,
            )
        if not quiet:
            self._say(recorded)
        return recorded

    def _say(self, recorded: RecordedArms) -> None:
        rows = sum(rewards.size for rewards in (recorded.records or {}).values())
        note(f"{recorded.source}: {counted(rows, 'sample')} of {len(recorded.labels):,} things")
        if recorded.missing and self.missing is MissingName.worst:
            note(f"{counted(recorded.missing, 'missing reward')} counted as the worst")
        elif recorded.missing:
            note(
                f"{counted(recorded.missing, 'row')} without a reward left out: sound only if being"
                " missing has nothing to do with the reward"
            )
        if recorded.copies:
            like = "is an exact copy" if recorded.copies == 1 else "are exact copies"
            note(
                f"{counted(recorded.copies, 'row')} {like} of others: if they are the same samples,"
                " take them out, as each must count once"
            )
