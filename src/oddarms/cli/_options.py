"""The options of all commands: a command takes a table of them and gets their values.

The words of a question have their types from `Question`; this module adds the help.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import typer

from oddarms.cli._terminal import guarded, note
from oddarms.errors import InvalidParameter
from oddarms.problem import Question, check_bounds
from oddarms.studies import MEMORY, Storage, Study, open_storage, server_address
from oddarms.tables import Transform
from oddarms.text import DURATIONS, parse_duration, shown

Format = Literal["table", "json", "csv"]
ResultFormat = Literal["table", "json", "csv", "markdown"]
Given = SimpleNamespace
"""The values of a command's options, by name."""
_METAVARS = {int: "N", float: "NUMBER", str: "TEXT", Path: "FILE"}


class Option(NamedTuple):
    """An option, or an argument, of a command."""

    kind: Any
    default: Any
    about: Any


Options = dict[str, Option]


def option(
    kind: Any, about: str, shown: Any = True, *flags: str, default: Any = None, **more: Any
) -> Option:
    """Return an option; `shown` is the default that the help shows, if it is not `default`."""
    more["metavar"] = more.get("metavar") or _METAVARS.get(kind)
    if default is None:
        kind |= None
    if isinstance(shown, str):  # typer would put it in parentheses
        about, shown = f"{about}  [default: {shown}]", False
    return Option(kind, default, typer.Option(*flags, help=about, show_default=shown, **more))


def flag(about: str, *flags: str) -> Option:
    """Return an option without a value, named like its parameter unless flags are given."""
    info = typer.Option(help=about)
    info.param_decls = flags
    return Option(bool, False, info)


def argument(kind: Any, metavar: str, about: str, default: Any = inspect.Parameter.empty) -> Option:
    """Return an argument, which is required unless it has a default."""
    needed = default is inspect.Parameter.empty
    about = typer.Argument(metavar=metavar, help=about, show_default=False)
    return Option(kind if needed else kind | None, default, about)


def takes(**options: Option) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Give a command these options; it is called with their values, and its errors are told."""

    def decorate(command: Callable[[Any], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapper(**given: Any) -> None:
            command(Given(**given))

        for name, one in options.items():
            if one.kind is bool:  # else there would be a --no-... too
                one.about.param_decls = one.about.param_decls or (f"--{name.replace('_', '-')}",)
        del wrapper.__wrapped__
        found = {
            name: inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.default,
                annotation=one.kind if one.about is None else Annotated[one.kind, one.about],
            )
            for name, one in options.items()
        }
        wrapper.__signature__ = inspect.Signature(list(found.values()))  # type: ignore[attr-defined]
        wrapper.__annotations__ = {name: one.annotation for name, one in found.items()}
        return guarded(wrapper)

    return decorate


# The question


def _words(**about: tuple[str, str | bool]) -> Options:
    """Return options for words of a question, by what the help says of them and of the default."""
    kinds = get_type_hints(Question)
    texts = {"bounds": "A,B", "control": "ITEM", "algorithm": "NAME"}
    options = {}
    for word, said in about.items():
        kind: Any = str if word in texts else kinds.get(word, float)
        plain: dict[Any, Any] = {int | None: int, float | None: float}
        options[word] = option(plain.get(kind, kind), *said, metavar=texts.get(word))
    return options


QUESTION = _words(
    rule=(
        (
            "The threshold. sigma: mean + K standard deviations of all means; mad: median + K MAD;"
            " tukey: Q3 + K IQR; others: see --quantile, --control and --floor."
        ),
        "sigma",
    ),
    k=("How far out the threshold lies, in the units of --rule.", "2; mad: 3, tukey: 1.5"),
    margin=(
        "Abnormal items also lie at least this far from the centre of all means.",
        "0.05 of the width of the bounds",
    ),
    delta=("Permitted probability of any wrong decision.", "0.05"),
    bounds=("The smallest and the largest possible sample.", "0,1"),
    side=("Whether high means, low means or both are abnormal.", "upper"),
    floor=("Abnormal items also lie at or above this value (--side lower: at or below).", True),
    control=("The item to compare with, for --rule control.", True),
    quantile=("The share of normal items, for --rule quantile.", True),
    error=(
        (
            "What delta limits. fwer: the probability of any wrong decision. fdr: the expected"
            " share of wrong decisions."
        ),
        "fwer",
    ),
)
"""Words of a question about samples of any origin."""

SEARCH: Options = {
    **QUESTION,
    **_words(
        budget=("At most this many samples.", "no limit"),
        goal=(
            "confidence: stop when the answer is proven. budget: spend --budget on the best guess.",
            "confidence",
        ),
        algorithm=("spade, calibrated, lucb, ade, rr or wrr.", "by rule and goal"),
        indifference=("Items this close to the threshold may be called either way (spade).", True),
    ),
    "option": option(
        list[str], "Another option of the algorithm; may be repeated.", metavar="NAME=VALUE"
    ),
}
"""Words of a question about samples that are still to be made."""

TRANSFORMS: Options = {
    "clip": option(
        str,
        "For samples without bounds: values outside A,B count as the nearer end.",
        metavar="A,B",
    ),
    "above": option(
        float,
        "For samples without bounds: compare how often they exceed this value.",
        metavar="VALUE",
    ),
}


def words_of(given: Given) -> dict[str, Any]:
    """Return the words of a question that were given, as `Question.of` takes them."""
    known = vars(given)
    words = {name: known[name] for name in SEARCH if known.get(name) is not None}
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


def transform_of(words: dict[str, Any], given: Given) -> Transform | None:
    """Return what --clip or --above make of samples, and add the bounds to the words."""
    clip, above = given.clip, given.above
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
            f"--{name} takes two numbers separated by a comma, such as 0,1; got {shown(text)!r}."
        ) from None
    if name == "bounds" and (math.isinf(a) or math.isinf(b)):
        raise InvalidParameter(
            f"--bounds must be finite but got {text}. For samples without a largest value, use"
            " --clip 0,10 (samples outside count as the nearer end) or --above 0.5 (the share of"
            " samples above)."
        )
    return check_bounds((a, b), f"--{name}")


# Durations, studies, formats


def seconds(text: object) -> float:
    """Return the seconds of an option such as 90s or 10m; click adds the name of the option."""
    try:
        return parse_duration(str(text))
    except ValueError:
        raise typer.BadParameter(f"it must be {DURATIONS} but got {shown(text)!r}.") from None


def duration(about: str, shown: Any = True, default: float | None = None) -> Option:
    """Return an option that is a duration."""
    return option(float, about, shown, default=default, parser=seconds, metavar="TIME")


SIGMAS = option(float, "How many standard deviations above the mean is abnormal.", "2")
CONTEXT = Option(typer.Context, inspect.Parameter.empty, None)
NAME = argument(str, "NAME", "The study.")
ARMS = option(
    str, "The items: a file with one per line, - for stdin, or a list.", metavar="FILE|-|A,B,C"
)
FORMAT = option(Format, "A table, or JSON or CSV for programs.", True, "--format", default="table")
RESULT_FORMAT = option(ResultFormat, "How to print the answer.", True, "--format", default="table")
ALL = flag("List normal items, too.", "--all")
RAW_CSV = flag("Write labels like =1 to arms.csv as they are, without an apostrophe.")
QUIET = flag("Print no progress and no remarks.", "--quiet", "-q")
STORAGE = option(
    str,
    "A file, postgresql://USER@HOST/NAME, or the http:// address of a server.",
    "$ODDARMS_STORAGE, or oddarms.db here",
    metavar="URL",
)
WORKER = option(str, "A name for the log.", "the process and the machine", metavar="NAME")


def seed_option(about: str, default: int | None = None) -> Option:
    """Return the option for a seed."""
    return option(int, about, True if default is not None else "drawn", default=default, min=0)


def opened_storage(storage: str | None) -> Storage:
    """Return a storage that outlives the command; say which one is used if none was named."""
    check_lasting(storage)
    found = open_storage(storage)
    if storage is None and not os.environ.get("ODDARMS_STORAGE"):
        note(f"storage: {shown(Path(found.name).absolute())}")
    return found


def check_lasting(storage: str | None) -> None:
    """Raise if a storage is the memory of this process."""
    if (storage or os.environ.get("ODDARMS_STORAGE")) in MEMORY:
        raise InvalidParameter(
            "--storage must be a file or a server, as memory does not outlive the command."
        )


def opened_study(given: Given) -> Study:
    """Return the study of --storage."""
    return opened_storage(given.storage).load(given.name)


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


def add_history(study: Study, source: str, *, again: bool = False, **columns: Any) -> int:
    """Add the samples of a file to a study, once unless `again`; return how many were added."""
    with file_of(source) as path:
        try:
            key = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
        except OSError as error:
            raise InvalidParameter(f"Cannot read {shown(source)}: {error.strerror}.") from None
        added = study.add_history(path, key=key, **columns)
        return study.add_history(path, **columns) if again and not added else added
