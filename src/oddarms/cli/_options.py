"""Options that several commands share: the question, the storage, formats and durations.

`with_options` gives a command a whole table of options in place of one parameter, so each option
is written down once.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from oddarms.cli._terminal import note
from oddarms.errors import InvalidParameter
from oddarms.problem import DEFAULT_DELTA, Error, Goal, RuleName, Side, check_bounds
from oddarms.studies import Storage, Study, load_study, open_storage, server_address
from oddarms.tables import Transform
from oddarms.text import DURATIONS, parse_duration, shown

Options = dict[str, Any]
"""Options by the names of their parameters; each is an annotation for typer."""
Format = Literal["table", "json", "csv"]
ResultFormat = Literal["table", "json", "csv", "markdown"]


def option(kind: Any, about: str, default: str | bool = True, **more: Any) -> Any:
    """Return the annotation of an option that may be left out; `default` is what the help shows."""
    if kind in (int, float):
        more.setdefault("metavar", "N" if kind is int else "NUMBER")
    return Annotated[kind | None, typer.Option(help=about, show_default=default, **more)]


def flag(name: str, about: str, *short: str) -> Any:
    """Return the annotation of an option without a value."""
    return Annotated[bool, typer.Option(f"--{name}", *short, help=about)]


def with_options(
    **tables: Options,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace parameters of a command by tables of options; it is called with dictionaries.

    An option that is not given is None, or False if it is a flag.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for one in inspect.signature(command, eval_str=True).parameters.values():
            if one.name in tables:
                parameters += [_parameter(*item) for item in tables[one.name].items()]
            else:
                parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        @functools.wraps(command)
        def wrapper(**given: Any) -> None:
            found = {
                table: {name: given.pop(name) for name in options}
                for table, options in tables.items()
            }
            command(**found, **given)

        del wrapper.__wrapped__
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapper

    return decorate


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    default = False if annotation.__origin__ is bool else None
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


# The question

QUESTION: Options = {
    "k": option(
        float,
        "Abnormal: at or above mean + K standard deviations of all means.",
        "2; mad: 3, tukey: 1.5",
    ),
    "margin": option(
        float,
        "Abnormal: also at least this far above the mean of all means.",
        "0.05 of the width of the bounds",
    ),
    "delta": option(float, "Permitted probability of any wrong decision.", f"{DEFAULT_DELTA:g}"),
    "bounds": option(str, "The smallest and the largest possible sample.", "0,1", metavar="A,B"),
    "side": option(Side, "Which side is abnormal.", "upper"),
    "floor": option(float, "Abnormal: also at or above this (--side lower: below)."),
    "rule": option(RuleName, "How the threshold follows from the means.", "sigma"),
    "control": option(str, "The item to compare with, for --rule control.", metavar="ITEM"),
    "quantile": option(float, "The share of normal items, for --rule quantile."),
    "error": option(
        Error,
        "What delta bounds. fwer: the probability of any wrong decision. fdr: the expected share"
        " of wrong decisions.",
        "fwer",
    ),
}
"""Words of a question about samples of any origin."""

SEARCH: Options = {
    **QUESTION,
    "budget": option(int, "At most this many samples.", "no limit"),
    "goal": option(
        Goal,
        "confidence: stop when the answer is proven. budget: spend --budget on the best guess.",
        "confidence",
    ),
    "algorithm": option(str, "spade, calibrated, lucb, ade, rr or wrr.", "by rule and goal"),
    "indifference": option(
        float, "Items this close to the threshold may be called either way (spade)."
    ),
    "option": option(
        list[str], "Another option of the algorithm; may be repeated.", metavar="NAME=VALUE"
    ),
}
"""Words of a question about samples that are still to be made."""

TRANSFORMS: Options = {
    "clip": option(
        str,
        "For samples without bounds: count those outside A,B as the nearer end.",
        metavar="A,B",
    ),
    "above": option(
        float,
        "For samples without bounds: compare the shares of samples above this.",
        metavar="VALUE",
    ),
}


def words_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of a question that were given, as `Question.of` takes them."""
    words = {name: value for name, value in given.items() if value is not None}
    if "bounds" in words:
        words["bounds"] = pair_of("bounds", words["bounds"])
    for text in words.pop("option", None) or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in words:
            raise InvalidParameter(
                f"--option takes NAME=VALUE, such as batch=9, and each name once; got {text!r}."
            )
        try:
            words[name] = json.loads(value)
        except (RecursionError, ValueError):
            words[name] = value
    return words


def transform_of(words: dict[str, Any], clip: str | None, above: float | None) -> Transform | None:
    """Return what --clip or --above make of samples, and add the bounds to the words."""
    if "bounds" in words and (clip is not None or above is not None):
        raise InvalidParameter(
            f"--bounds cannot be combined with --{'above' if clip is None else 'clip'}, which"
            " implies the bounds."
        )
    transform = Transform.of(None if clip is None else pair_of("clip", clip), above)
    if transform is not None:
        words["bounds"] = transform.bounds
    return transform


def pair_of(name: str, text: str) -> tuple[float, float]:
    """Return the two numbers of ``A,B``.

    Examples
    --------
    >>> pair_of("bounds", "0,10")
    (0.0, 10.0)
    """
    try:
        a, b = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidParameter(
            f"--{name} takes two numbers with a comma between, such as 0,1; got {shown(text)!r}."
        ) from None
    if name == "bounds" and (math.isinf(a) or math.isinf(b)):
        raise InvalidParameter(
            f"--bounds must be finite but got {text}. For samples without a largest value, use"
            " --clip 0,10 (samples outside count as the nearer end) or --above 0.5 (the share of"
            " samples above)."
        )
    return check_bounds((a, b), f"--{name}")


# Durations


def seconds(text: object) -> float:
    """Return the seconds of an option such as 90s or 10m; click adds the name of the option."""
    try:
        return parse_duration(str(text))
    except ValueError:
        raise typer.BadParameter(f"it must be {DURATIONS} but got {shown(text)!r}.") from None


def duration_option(about: str, default: str | bool = True) -> Any:
    """Return the annotation of an option that is a duration."""
    return option(float, about, default, parser=seconds, metavar="TIME")


# Studies, storages, formats

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The study.")]
FormatOption = Annotated[
    Format, typer.Option("--format", help="A table for people, JSON or CSV for programs.")
]
ResultFormatOption = Annotated[
    ResultFormat, typer.Option("--format", help="A table, JSON, CSV or Markdown.")
]
SeedOption = Annotated[
    int | None, typer.Option(min=0, help="Decides random choices.", show_default="drawn")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
ArmsHelp = "The items: a file with one per line, - for stdin, or a list."
StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="URL",
        help="A file, postgresql://USER@HOST/NAME, or the http:// address of a server.",
        show_default="$ODDARMS_STORAGE, or oddarms.db here",
    ),
]


def opened_storage(storage: str | None) -> Storage:
    """Return a storage that outlives the command; say which one is used if none was named."""
    check_lasting(storage)
    found = open_storage(storage)
    if storage is None and not os.environ.get("ODDARMS_STORAGE"):
        note(f"storage: {shown(Path(found.name).absolute())}")
    return found


def check_lasting(storage: str | None) -> None:
    """Raise if a storage is the memory of this process."""
    chosen = storage if storage is not None else os.environ.get("ODDARMS_STORAGE")
    if chosen in ("memory", ":memory:", "sqlite://", "sqlite:///:memory:"):
        raise InvalidParameter(
            "--storage must be a file or a server, as memory does not outlive the command."
        )


def opened_study(name: str, storage: str | None) -> Study:
    """Return a study of a storage."""
    check_lasting(storage)
    if storage is None and not os.environ.get("ODDARMS_STORAGE"):
        opened_storage(None)
    return load_study(name, storage=storage)


def check_local(storage: str | None) -> None:
    """Raise if a storage is the address of a server."""
    if server_address(storage) is not None:
        raise InvalidParameter(
            "--storage must be the file or database itself, not the address of a server."
        )


@contextmanager
def file_of(source: str) -> Iterator[Path]:
    """Give the path of a file; stdin (``-``) is copied to a temporary one."""
    if source != "-":
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(prefix="oddarms-") as folder:
        path = Path(folder) / "stdin"
        path.write_bytes(sys.stdin.buffer.read())
        yield path
