"""Options of commands that ask a question, and the words that they make."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer


class SideName(StrEnum):
    """Which side is abnormal."""

    UPPER = "upper"
    LOWER = "lower"
    BOTH = "both"


class RuleOption(StrEnum):
    """What the threshold is made of."""

    sigma = "sigma"
    mad = "mad"
    tukey = "tukey"
    quantile = "quantile"
    control = "control"
    absolute = "absolute"


class ErrorOption(StrEnum):
    """What delta bounds."""

    fwer = "fwer"
    fdr = "fdr"


class GoalOption(StrEnum):
    """When to stop."""

    confidence = "confidence"
    budget = "budget"


Margin = Annotated[
    float | None,
    typer.Option(
        help="Abnormal: also at least this far above the mean of all means.",
        show_default="a twentieth of the bounds' width",
    ),
]
Floor = Annotated[
    float | None,
    typer.Option(help="Abnormal: also at or above this (--side lower: below)."),
]
RuleChoice = Annotated[
    RuleOption | None,
    typer.Option(help="What the threshold is made of.", show_default="sigma"),
]
Control = Annotated[
    str | None, typer.Option(metavar="THING", help="What to compare with, for --rule control.")
]
QuantileShare = Annotated[
    float | None, typer.Option(help="The share of normal things, for --rule quantile.")
]
ErrorKind = Annotated[
    ErrorOption | None,
    typer.Option(
        help="fwer: nothing is wrong, with probability 1 - delta. fdr: on average at most delta"
        " of the names on either side are wrong.",
        show_default="fwer",
    ),
]
GoalKind = Annotated[
    GoalOption | None,
    typer.Option(
        help="confidence: stop once the answer is known. budget: spend --budget on the best guess.",
        show_default="confidence",
    ),
]
AlgorithmName = Annotated[
    str | None,
    typer.Option(help="spade, calibrated, lucb, ade, rr, wrr.", show_default="by rule and goal"),
]


def words_of(**given: Any) -> dict[str, Any]:
    """Return the words of a question that were given."""
    return {
        name: value.value if isinstance(value, StrEnum) else value
        for name, value in given.items()
        if value is not None
    }
