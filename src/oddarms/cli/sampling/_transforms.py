"""What a reward without known bounds counts as: ``--clip`` and ``--above``."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer

from oddarms.arms import transformed
from oddarms.cli._printing import note
from oddarms.errors import InvalidParameter
from oddarms.tables import Transform, bounds_of

Bounds = tuple[float, float]

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
            "--clip and --above must be given with --reward stdout where there is --pull but got"
            " exit-code, which is a reward of 0 or 1."
        )
    return transformed(function, transform, batch=batch)


def say_clipped(transform: Transform | None, *, quiet: bool) -> None:
    """Tell how many rewards were clipped."""
    said = "" if transform is None or not transform.seen else transform.said()
    if said and not quiet:
        note(said)
