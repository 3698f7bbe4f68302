"""Options of commands that ask a question, and the words that they make."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from oddarms.cli._printing import note
from oddarms.problem import UNIT, USUAL_K, USUAL_MARGIN


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

    any = "any"
    fdr = "fdr"


class GoalOption(StrEnum):
    """When to stop."""

    sure = "sure"
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
        help="any: nothing is wrong, with probability 1 - delta. fdr: on average at most delta/2"
        " of the names on either side are wrong.",
        show_default="any",
    ),
]
GoalKind = Annotated[
    GoalOption | None,
    typer.Option(
        help="sure: stop once the answer is. budget: spend --budget on the best guess.",
        show_default="sure",
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


def with_margin(words: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Return the words of a new question, with the usual margin where none is given; say so."""
    rule = words.get("rule", "sigma")
    if "margin" in words or words.get("k", 0.0) < 0.0 or rule not in (*USUAL_K, "control"):
        return words
    a, b = words.get("bounds", UNIT)
    margin = USUAL_MARGIN * (b - a)
    if not quiet:
        above = {"sigma": "average", "control": "control"}.get(rule, "median")
        note(f"abnormal is also at least {margin:g} above the {above} (--margin 0: any distance)")
    return {**words, "margin": margin}
