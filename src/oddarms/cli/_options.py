"""The options of all commands: a command takes some of them and gets their values.

The words of a question have their types from `Question`; this module adds the help.
"""

from __future__ import annotations

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
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from oddarms.cli._terminal import note
from oddarms.errors import InvalidParameter
from oddarms.problem import Question, check_bounds
from oddarms.studies import MEMORY, Storage, Study, open_storage, server_address
from oddarms.tables import Transform
from oddarms.text import DURATIONS, parse_duration, shown

Format = Literal["table", "json", "csv"]
ResultFormat = Literal["table", "json", "csv", "markdown"]
Given = SimpleNamespace
"""The values of a command's options, by name."""
Options = tuple[click.Parameter, ...]


class Commands(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(self.commands)


def seconds(text: str) -> float:
    """Return the seconds of an option such as 90s or 10m, as its type."""
    try:
        return parse_duration(str(text))
    except ValueError:
        raise click.BadParameter(f"{shown(text)!r} is not {DURATIONS}.") from None


class Argument(click.Argument):
    """An argument that the help explains, also with a click older than 8.5."""

    def __init__(self, name: str, about: str, **more: Any) -> None:
        super().__init__([name], **more)
        self.help = about

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return the argument's line in the help."""
        return self.make_metavar(ctx), str(self.help)


def option(words: str, kind: Any, about: str, shown: str = "", **more: Any) -> click.Option:
    """Return an option.

    `words` has its flags and, in capitals, what stands for its value; and the name of the value
    where that is another one. `shown` says what the default is where `default` does not.
    """
    names = [word for word in words.split() if word[0] == "-" or word.islower()]
    metavar = next((word for word in words.split() if word not in names), None)
    if get_origin(kind) is Literal:
        kind = click.Choice(get_args(kind))
    elif kind is Path:
        kind = click.Path(path_type=Path)
    if shown:  # click would put it in parentheses
        about = f"{about}  [default: {shown}]"
    more |= {
        "type": kind,
        "metavar": metavar,
        "show_default": not shown and bool(more.get("default")),
    }
    return click.Option(names, help=about, **more)


def flag(names: str, about: str) -> click.Option:
    """Return an option without a value."""
    return click.Option(names.split(), is_flag=True, help=about)


def command(
    group: click.Group | None,
    name: str,
    *options: click.Parameter,
    kind: type[click.Command] = click.Command,
    **settings: Any,
) -> Callable[[Callable[[Given], None]], Any]:
    """Make a command of a function, which is called with the options' values."""

    def decorate(function: Callable[[Given], None]) -> click.Command:
        made = kind(
            name,
            callback=lambda **given: function(Given(**given)),
            params=list(options),
            help=inspect.getdoc(function),
            **settings,
        )
        if group is not None:
            group.add_command(made)
        return made

    return decorate


# The question


def _word(words: str, about: str, shown: str = "") -> click.Option:
    """Return an option for a word of a question, which has its type from `Question`."""
    hint: Any = get_type_hints(Question).get(words.split()[0][2:], float)
    plain = {float: float, float | None: float, int | None: int}
    kind = hint if get_origin(hint) is Literal else plain.get(hint, str)
    return option(words, kind, about, shown)


DELTA = _word("--delta NUMBER", "Permitted probability of any wrong decision.", "0.05")
MARGIN = _word(
    "--margin NUMBER",
    "Abnormal items also lie at least this far from the centre of all means.",
    "0.05 of the width of the bounds",
)
QUESTION: Options = (
    _word(
        "--rule",
        "The threshold. sigma: mean + K standard deviations of all means; mad: median + K MAD;"
        " tukey: Q3 + K IQR; the others: see --quantile, --control and --floor.",
        "sigma",
    ),
    _word(
        "--k NUMBER",
        "How far out the threshold lies, in the units of --rule.",
        "2; mad: 3, tukey: 1.5",
    ),
    MARGIN,
    DELTA,
    _word("--bounds A,B", "The smallest and the largest possible sample.", "0,1"),
    _word("--side", "Whether high means, low means or both are abnormal.", "upper"),
    _word(
        "--floor NUMBER",
        "Abnormal items also lie at or above this value (--side lower: at or below).",
    ),
    _word("--control ITEM", "The item to compare with, for --rule control."),
    _word("--quantile NUMBER", "The share of normal items, for --rule quantile."),
    _word(
        "--error",
        "What delta limits. fwer: the probability of any wrong decision. fdr: the expected share"
        " of wrong decisions.",
        "fwer",
    ),
)
"""Words of a question about samples of any origin."""

SEARCH: Options = (
    *QUESTION,
    _word("--budget N", "Take at most this many samples.", "no limit"),
    _word(
        "--goal",
        "confidence: stop when the answer is proven. budget: spend --budget on the best guess.",
        "confidence",
    ),
    _word("--algorithm NAME", "spade, calibrated, lucb, ade, rr or wrr.", "by rule and goal"),
    _word(
        "--indifference NUMBER",
        "Items this close to the threshold may be called either way (spade).",
    ),
    option(
        "--option NAME=VALUE",
        str,
        "Another option of the algorithm; may be repeated.",
        multiple=True,
    ),
)
"""Words of a question about samples that are still to be taken."""

TRANSFORMS: Options = (
    option(
        "--clip A,B",
        str,
        "For samples without bounds: count values outside A,B as the nearer end.",
    ),
    option(
        "--above VALUE",
        float,
        "For samples without bounds: compare how often they exceed this value.",
    ),
)


def words_of(given: Given) -> dict[str, Any]:
    """Return the words of a question that were given, for `Question.of`."""
    known = vars(given)
    words = {o.name: known[o.name] for o in SEARCH if known.get(o.name) not in (None, ())}
    if "bounds" in words:
        words["bounds"] = pair_of("bounds", words["bounds"])
    for text in words.pop("option", ()):
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
    """Return the transform of --clip or --above, and add its bounds to the words."""
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


# Options of several commands

SIGMAS = option(
    "--k NUMBER", float, "How many standard deviations above the mean is abnormal.", "2"
)
NAME = Argument("name", "The study.", metavar="NAME")
ITEMS = option(
    "--arms FILE|-|A,B,C",
    str,
    "The items: a file with one per line, - for stdin, or a list.",
    required=True,
)
FORMAT = option("--format how", Format, "A table, or JSON or CSV for programs.", default="table")
RESULT_FORMAT = option("--format how", ResultFormat, "How to print the answer.", default="table")
ALL = flag("--all every", "List normal items, too.")
QUIET = flag("--quiet -q", "Print no progress and no remarks.")
STORAGE = option(
    "--storage URL",
    str,
    "A file, postgresql://USER@HOST/NAME, or the http:// address of a server.",
    "$ODDARMS_STORAGE, or oddarms.db here",
)
PORT = option(
    "--port N", click.IntRange(0, 65535), "Port to listen on; 0 picks a free one.", default=8321
)
WORKER = option("--worker NAME", str, "Name of this worker, for the log.")


def seed_option(about: str, default: int | None = None) -> click.Option:
    """Return the option for a seed."""
    return option("--seed N", int, about, "random" if default is None else "", default=default)


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
