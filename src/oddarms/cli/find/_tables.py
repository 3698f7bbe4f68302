"""The table of ``oddarms find``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from oddarms.cli._printing import note
from oddarms.cli.sampling import Bounds
from oddarms.errors import InvalidParameter
from oddarms.problem import UNIT
from oddarms.reports import LeftOut
from oddarms.search import ARMS, Subject
from oddarms.tables import RecordedArms, Transform, read_counts, read_rewards
from oddarms.text import counted


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

    subject: ClassVar[Subject] = ARMS
    left_out: ClassVar[tuple[LeftOut, ...]] = ()

    def key_of(self, recorded: RecordedArms) -> str:
        """Return what an import of the table is called, so that the same one counts once."""
        return recorded.sha256

    def check(self, *, named: bool, files: bool = False) -> None:
        """Refuse options that do not go together.

        `named` is whether a column of rewards is, and `files` whether there is --junit, too.
        """
        counts = self.successes is not None or self.trials is not None
        policy = self.missing is not MissingName.stop and not files
        if self.table is None and (counts or self.encoding or policy):
            raise InvalidParameter(
                "--successes, --trials, --encoding and --missing must be given with --table, which"
                " they are about, but got none."
            )
        if counts and (self.successes is None or self.trials is None):
            raise InvalidParameter("--successes and --trials must be given together but got one.")
        if counts and (self.transform is not None or named or self.missing is not MissingName.stop):
            raise InvalidParameter(
                "--successes and --trials must be given without a column of rewards, --clip,"
                " --above and --missing but got one: what was counted is 0 or 1."
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
