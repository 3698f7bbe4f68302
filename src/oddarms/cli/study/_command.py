"""``oddarms study``: studies from the shell, so that whatever runs commands can be a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from oddarms import studies
from oddarms.algorithms import get_algorithm
from oddarms.algorithms._base import check_options
from oddarms.cli._answer import rendered
from oddarms.cli._guard import EXIT_FAILED, guarded
from oddarms.cli._printing import Format, ResultFormat, emit, emit_rows, json_text, note
from oddarms.cli._question import (
    AlgorithmName,
    Control,
    ErrorKind,
    Floor,
    GoalKind,
    Margin,
    QuantileShare,
    RuleChoice,
    SideName,
    words_of,
)
from oddarms.cli._suggestions import SuggestingCommand, SuggestingGroup
from oddarms.cli.study._show import described, fields, flat, moment
from oddarms.cli.study._storage import FormatOption, NameArgument, StorageOption, chosen, opened
from oddarms.cli.study._work import ask, export, import_, renew, skip, tell
from oddarms.cli.study._worker import work
from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K, usual_algorithm
from oddarms.tables import bounds_of, csv_text, read_labels
from oddarms.text import counted, shown, table


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new name.")],
    arms: Annotated[
        str,
        typer.Option(
            metavar="FILE|-|A,B,C",
            help="A file with a label per line, - for stdin, or labels with commas between.",
        ),
    ],
    k: Annotated[
        float | None,
        typer.Option(
            help="Standard deviations from the mean of all means.", show_default=f"{DEFAULT_K:g}"
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Permitted probability of an error.")
    ] = DEFAULT_DELTA,
    margin: Margin = None,
    floor: Floor = None,
    rule: RuleChoice = None,
    control: Control = None,
    quantile: QuantileShare = None,
    error: ErrorKind = None,
    goal: GoalKind = None,
    algorithm: AlgorithmName = None,
    bounds: Annotated[
        str, typer.Option(metavar="A,B", help="Smallest and largest possible reward.")
    ] = "0,1",
    side: Annotated[SideName, typer.Option(help="Where outliers lie.")] = SideName.UPPER,
    budget: Annotated[
        int | None, typer.Option(help="Most samples of all workers together.", show_default="none")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides random choices.", show_default="drawn")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the algorithm; may be repeated."),
    ] = None,
    storage: StorageOption = None,
) -> None:
    """Create a study, which asks which arms have an abnormal mean.

    \b
    Examples:
      oddarms study create crowd --arms workers.txt --k 2 --delta 0.05
      oddarms study create ads --arms a,b,c --k 1 --delta 0.1 --bounds 0,100
      oddarms study create tests --arms - --k 2 --delta 0.1 --option max_step=50
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    options = _options(option or [])
    usual = usual_algorithm(rule or "sigma", goal or "confidence")
    check_options(get_algorithm(algorithm or usual), options)
    labels = read_labels(arms)
    made = studies.create_study(
        name,
        labels,
        rng=seed,
        storage=chosen(storage, new=True),
        **words_of(
            k=k,
            delta=delta,
            bounds=bounds_of(bounds),
            side=side,
            rule=rule,
            margin=margin,
            floor=floor,
            control=control,
            quantile=quantile,
            error=error,
            goal=goal,
            algorithm=algorithm,
            budget=budget,
        ),
        **options,
    )
    emit(f"created {made.name} with {counted(len(labels), 'arm')} in {shown(made.storage)}\n")


def _options(given: list[str]) -> dict[str, Any]:
    """Return options by name; a value that is JSON, such as 0.01 or true, is what it says."""
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in options:
            raise InvalidParameter(
                f"option must be name=value, each name once, such as batch=9, but got {text!r}."
            )
        try:
            options[name] = json.loads(value)
        except (RecursionError, ValueError):
            options[name] = value
    return options


def list_studies(storage: StorageOption = None, how: FormatOption = Format.table) -> None:
    """List the studies of a storage.

    \b
    Example:
      oddarms study list --storage postgresql://me@host/studies
    """  # noqa: D301
    found = studies.list_studies(storage=chosen(storage))
    if how is Format.table and not found:
        note("no studies yet: `oddarms study create` makes one")
        return
    if how is Format.table:
        header = ("name", "arms", "k", "delta", "algorithm", "tickets", "results", "created (UTC)")
        right = ("arms", "k", "delta", "tickets", "results")
        emit(table(header, map(_for_people, found), right=right, wrap="name"))
        return
    header = ("name", "arms", "k", "delta", "algorithm", "handed_out", "results", "created")
    emit_rows(how, header, map(_for_programs, found))


def _for_people(one: studies.StudySummary) -> Sequence[str]:
    name, n, k, delta, algorithm, tickets, results, _ = _for_programs(one)
    numbers = (f"{n:,}", f"{k:g}", f"{delta:g}")
    return name, *numbers, algorithm, f"{tickets:,}", f"{results:,}", moment(one.created)[:16]


def _for_programs(one: studies.StudySummary) -> Sequence[Any]:
    asked = one.question
    numbers = (asked.n, asked.k, asked.delta)
    counts = (one.handed_out, one.results)
    return one.name, *numbers, asked.algorithm, *counts, one.created.isoformat()


def show(
    name: NameArgument, storage: StorageOption = None, how: FormatOption = Format.table
) -> None:
    """Show what a study asks and how far it is.

    A ticket is live if its result may still be on the way: its lease has not run out and it was
    not given back. How many more samples are needed is a guess, mostly right to a factor of three.

    \b
    Example:
      oddarms study show crowd
    """  # noqa: D301
    study = opened(name, storage)
    overview = study.overview()
    if how is Format.table:
        emit(described(study, overview))
        return
    values = fields(study, overview)
    if how is Format.json:
        emit(json_text(values))
    else:
        row = flat(values)
        emit(csv_text(list(row), [list(row.values())]))


def result(
    name: NameArgument,
    storage: StorageOption = None,
    how: Annotated[
        ResultFormat, typer.Option("--format", help="A table, JSON, CSV or Markdown.")
    ] = ResultFormat.table,
    every: Annotated[bool, typer.Option("--all", help="Every arm, not only outliers.")] = False,
) -> None:
    """Show the outliers, as far as they are known.

    Decisions are final as long as the question is not changed. All intervals hold together
    with probability 1 - delta. Odds say how strong the evidence for an arm's decision is: 1000 is
    a bet won 1000 to 1 against the contrary. JSON and CSV have every arm.

    \b
    Examples:
      oddarms study result crowd
      oddarms study result crowd --format json
    """  # noqa: D301
    emit(rendered(opened(name, storage).result(), how, every=every))


def verify(name: NameArgument, storage: StorageOption = None) -> None:
    """Replay a study's log and compare with what is stored.

    The exit code is 0 if they agree and 1 if not. The chain is a hash of all results in their
    order, and of all changes of the question: a copy of the study has the same one, and so has
    this study later as long as nothing is added. Write it down elsewhere to prove that nobody has
    changed the log since.

    \b
    Example:
      oddarms study verify crowd
    """  # noqa: D301
    study = opened(name, storage)
    found = studies.verify(study)
    if not found.ok:
        raise StorageFailed(
            f"{study.name} does not agree with its log: {'; '.join(found.problems)}."
        )
    emit(
        f"{study.name} is sound: its {counted(found.results, 'result')} give what is stored\n"
        f"chain: {found.chain}\n"
    )


def delete(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    storage: StorageOption = None,
) -> None:
    """Delete a study with all its results, for good.

    \b
    Example:
      oddarms study delete crowd --yes
    """  # noqa: D301
    where = chosen(storage)
    study = studies.load_study(name, storage=where)
    if not yes:
        _confirm(study)
    studies.delete_study(name, storage=where)
    emit(f"deleted {study.name} from {shown(study.storage)}\n")


def _confirm(study: studies.Study) -> None:
    if not sys.stdin.isatty():
        raise InvalidParameter(
            "--yes must be given where there is no terminal to ask on but is missing: nothing was"
            " deleted."
        )
    question = f"Delete {study.name} from {shown(study.storage)} with all its results, for good?"
    print(f"{question} [y/N]", end=" ", file=sys.stderr, flush=True)
    line = ""
    try:
        line = sys.stdin.readline()
    finally:
        if not line:
            note("")  # nobody ended the line: Ctrl-C, Ctrl-D
    if line.strip().casefold() not in ("y", "yes"):
        note("nothing was deleted")
        raise typer.Exit(EXIT_FAILED)


def upgrade(storage: StorageOption = None) -> None:
    """Bring an older storage to the present version.

    Make a copy first; workers must not use the storage meanwhile.

    \b
    Example:
      cp oddarms.db oddarms-copy.db && oddarms study upgrade
    """  # noqa: D301
    where = chosen(storage)
    studies.upgrade_storage(storage=where)
    emit("the storage is at the present version\n")


app = typer.Typer(
    cls=SuggestingGroup,
    help="Ask and tell from the shell: searches in a file or database, shared by many workers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("create", cls=SuggestingCommand)(guarded(create))
app.command("list", cls=SuggestingCommand)(guarded(list_studies))
app.command("show", cls=SuggestingCommand)(guarded(show))
app.command("ask", cls=SuggestingCommand)(guarded(ask))
app.command("tell", cls=SuggestingCommand, context_settings={"ignore_unknown_options": True})(
    guarded(tell)
)
app.command("work", cls=SuggestingCommand)(guarded(work))
app.command("skip", cls=SuggestingCommand)(guarded(skip))
app.command("renew", cls=SuggestingCommand)(guarded(renew))
app.command("import", cls=SuggestingCommand)(guarded(import_))
app.command("export", cls=SuggestingCommand)(guarded(export))
app.command("result", cls=SuggestingCommand)(guarded(result))
app.command("verify", cls=SuggestingCommand)(guarded(verify))
app.command("delete", cls=SuggestingCommand)(guarded(delete))
app.command("upgrade", cls=SuggestingCommand)(guarded(upgrade))
