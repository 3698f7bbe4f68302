"""``oddarms study``: create, look at and work on studies."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from oddarms.cli._main import SuggestingCommand, group
from oddarms.cli._options import (
    SEARCH,
    ArmsHelp,
    FormatOption,
    NameArgument,
    QuietOption,
    ResultFormatOption,
    SeedOption,
    StorageOption,
    check_lasting,
    opened_storage,
    opened_study,
    with_options,
    words_of,
)
from oddarms.cli._sampling import SAMPLING, Output, Sampling, sample
from oddarms.cli._terminal import (
    EXIT_FAILED,
    EXIT_UNFINISHED,
    emit,
    emit_rows,
    guarded,
    json_text,
    note,
)
from oddarms.cli._tickets import ask, export, import_, moment, renew, skip, tell
from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.problem import Question
from oddarms.search import facts, guarantee, seconds_of, status_text
from oddarms.studies import Overview, Study, StudySummary, create_study, retried
from oddarms.studies.wire import study_document
from oddarms.tables import csv_text, read_labels
from oddarms.text import counted, shown, table


@with_options(asked=SEARCH)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new name.")],
    arms: Annotated[str, typer.Option(metavar="FILE|-|A,B,C", help=ArmsHelp)],
    asked: Any = None,
    seed: SeedOption = None,
    storage: StorageOption = None,
) -> None:
    """Create a study: a search that many workers share.

    \b
    Examples:
      oddarms study create crowd --arms workers.txt --k 2 --delta 0.05
      oddarms study create ads --arms a,b,c --k 1 --bounds 0,100
      oddarms study create tests --arms - --option max_step=50
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    question = Question.of(read_labels(arms), words_of(asked))
    check_lasting(storage)
    made = create_study(name, question, rng=seed, storage=storage)
    where = shown(made.storage)
    emit(f"created {made.name} with {counted(question.n, 'arm')} in {where}\n")


def list_studies(storage: StorageOption = None, how: FormatOption = "table") -> None:
    """List the studies of a storage.

    \b
    Example:
      oddarms study list --storage postgresql://me@host/studies
    """  # noqa: D301
    found = opened_storage(storage).list()
    if how == "table" and not found:
        note("no studies yet: `oddarms study create` makes one")
        return
    if how == "table":
        header = ("name", "arms", "k", "delta", "algorithm", "tickets", "results", "created (UTC)")
        right = ("arms", "k", "delta", "tickets", "results")
        emit(table(header, map(_for_people, found), right=right, wrap="name"))
        return
    header = ("name", "arms", "k", "delta", "algorithm", "handed_out", "results", "created")
    emit_rows(how, header, map(_for_programs, found))


def _for_people(one: StudySummary) -> Sequence[str]:
    name, n, k, delta, algorithm, tickets, results, _ = _for_programs(one)
    numbers = (f"{n:,}", f"{k:g}", f"{delta:g}")
    return name, *numbers, algorithm, f"{tickets:,}", f"{results:,}", moment(one.created)[:16]


def _for_programs(one: StudySummary) -> Sequence[Any]:
    asked = one.question
    numbers = (asked.n, asked.k, asked.delta)
    counts = (one.handed_out, one.results)
    return one.name, *numbers, asked.algorithm, *counts, one.created.isoformat()


def show(name: NameArgument, storage: StorageOption = None, how: FormatOption = "table") -> None:
    """Show what a study asks and how far it is.

    A ticket is live if its result may still come: its lease has not run out and it was not given
    back. How many more samples are needed is a guess, mostly right to a factor of three.

    \b
    Example:
      oddarms study show crowd
    """  # noqa: D301
    study = opened_study(name, storage)
    overview = study.overview()
    if how == "table":
        emit(_described(study, overview))
        return
    document = study_document(study, overview, overview.result.to_dict())
    if how == "json":
        emit(json_text(document))
    else:
        row = _flat(document)
        emit(csv_text(list(row), [list(row.values())]))


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document for one row of CSV, with a column for each part of its parts."""
    question = document["question"]
    row = {key: value for key, value in document.items() if key not in ("question", "thresholds")}
    row |= {key: value for key, value in question.items() if key not in ("labels", "version")}
    row["bounds"] = " ".join(f"{bound:g}" for bound in question["bounds"])
    row["options"] = " ".join(f"{key}={value}" for key, value in question["options"].items())
    for side, threshold in document["thresholds"].items():
        row |= {f"{side}_threshold_{end}": value for end, value in threshold.items()}
    return row


def _described(study: Study, overview: Overview) -> str:
    result, question = overview.result, overview.result.question
    a, b = question.bounds
    options = "".join(f", {key}={value}" for key, value in question.options.items())
    decided = f"{counted(len(result.outliers), 'outlier')}, {len(result.normal):,} normal"
    lines = [
        ("study", f"{study.name}, created {moment(overview.created)}"),
        ("storage", study.storage),
        ("question", question.sentence()),
        ("", f"{guarantee(question)}; samples in [{a:g}, {b:g}]"),
        ("algorithm", f"{question.algorithm_name}{options}, seed {study.seed}"),
        ("budget", "none" if question.budget is None else counted(question.budget, "sample")),
        ("status", status_text(overview.status)),
        ("arms", f"{decided}, {len(result.undecided):,} undecided"),
        *((name.removeprefix("upper "), text) for name, text in facts(result) if name != "status"),
        ("tickets", f"{overview.handed_out:,} handed out, {overview.live:,} of them live"),
        ("results", f"{overview.told:,} recorded, {counted(overview.conflicts, 'conflict')}"),
    ]
    return "".join(_indented(name, text) for name, text in lines)


def _indented(name: str, text: str) -> str:
    start = f"{f'{name}:' if name else '':17}"
    lines = textwrap.wrap(shown(text), 79 - len(start), break_long_words=False) or [""]
    return "".join(f"{start if i == 0 else ' ' * 17}{line}\n" for i, line in enumerate(lines))


def result(
    name: NameArgument,
    storage: StorageOption = None,
    how: ResultFormatOption = "table",
    every: Annotated[bool, typer.Option("--all", help="List normal items, too.")] = False,
) -> None:
    """Show the answer, as far as it is known.

    Decisions are final. All intervals hold together with probability 1 - delta. Odds say how
    strong the evidence for a decision is: 1000:1 is a bet won 1000 to 1 against the contrary. JSON
    and CSV have every item.

    \b
    Examples:
      oddarms study result crowd
      oddarms study result crowd --format json
    """  # noqa: D301
    Output(None, how, every=every).show(opened_study(name, storage).result())


@with_options(sampling=SAMPLING)
def work(
    name: NameArgument,
    sampling: Any = None,
    worker: Annotated[
        str | None,
        typer.Option(help="A name for the log.", show_default="the process and the machine"),
    ] = None,
    storage: StorageOption = None,
    quiet: QuietOption = False,
) -> None:
    """Work on a study: ask, sample and tell until it is done.

    Any number of workers may do so at once, on one machine or on many. A worker renews its leases
    as long as it lives; if it dies, others take over its samples within a minute. Ctrl-C, SIGTERM
    and SIGHUP end it cleanly, and the same command resumes.

    Exit codes: 0 every item is decided, or the goal was a budget; 3 the budget is used up and some
    are undecided; 1 a sample failed; 2 bad usage; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.

    \b
    Examples:
      oddarms study work tests --pull 'pytest -q {arm}' --jobs 4 --timeout 60
      oddarms study work hosts --python checks:latency --worker "$HOSTNAME"
    """  # noqa: D301
    plan = Sampling.of(sampling, {})
    if plan.function is None:
        raise InvalidParameter("--pull or --python is required: they say how to sample.")
    wait = seconds_of("retry_for", plan.policy.retry_for)
    study = retried(lambda: opened_study(name, storage), wait)
    if plan.bounds not in (None, study.question.bounds):
        a, b = study.question.bounds
        raise InvalidParameter(
            f"--clip and --above must give samples within the bounds of the study, {a:g},{b:g}."
        )
    retried(study.take_over, wait)
    found = study.result() if study.done else sample(study, plan, Output(None, None, quiet), worker)
    if not quiet:
        note(status_text(found.status))
        note(f"the answer: oddarms study result {shlex.quote(study.name)}")
    if not found.complete and found.question.goal != "budget":
        raise typer.Exit(EXIT_UNFINISHED)


def verify(name: NameArgument, storage: StorageOption = None) -> None:
    """Check a study: the database's own check, then a replay of its log.

    The exit code is 0 if the study is sound and 1 if not.

    \b
    Example:
      oddarms study verify crowd
    """  # noqa: D301
    study = opened_study(name, storage)
    found = study.verify()
    if not found.ok:
        raise StorageFailed(f"{study.name} is damaged: {'; '.join(found.problems)}.")
    emit(f"{study.name} is sound: {counted(found.results, 'result')}\n")


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
    study = opened_study(name, storage)
    if not yes:
        _confirm(study)
    opened_storage(storage).delete(name)
    emit(f"deleted {study.name} from {shown(study.storage)}\n")


def _confirm(study: Study) -> None:
    if not sys.stdin.isatty():
        raise InvalidParameter("--yes is required without a terminal: nothing was deleted.")
    question = f"Delete {study.name} from {shown(study.storage)} with all its results, for good?"
    print(f"{question} [y/N]", end=" ", file=sys.stderr, flush=True)
    line = ""
    try:
        line = sys.stdin.readline()
    finally:
        if not line:
            note("")  # end the line after Ctrl-C or Ctrl-D
    if line.strip().casefold() not in ("y", "yes"):
        note("nothing was deleted")
        raise typer.Exit(EXIT_FAILED)


app = group("Create and use studies: searches in a file or database that many workers share.")
_COMMANDS: dict[str, Callable[..., None]] = {
    "create": create,
    "list": list_studies,
    "show": show,
    "ask": ask,
    "tell": tell,
    "work": work,
    "skip": skip,
    "renew": renew,
    "import": import_,
    "export": export,
    "result": result,
    "verify": verify,
    "delete": delete,
}
for _name, _command in _COMMANDS.items():
    _settings = {"ignore_unknown_options": _name == "tell"}  # a reward may be negative
    app.command(_name, cls=SuggestingCommand, context_settings=_settings)(guarded(_command))
