"""``oddarms study``: create, look at and work on studies; move tickets and results."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from oddarms.cli import _options as opts
from oddarms.cli._options import Argument, Given, command, flag, option, seconds, seed_option
from oddarms.cli._sampling import SAMPLING, Output, Sampling, sample
from oddarms.cli._terminal import (
    EXIT_FAILED,
    EXIT_UNFINISHED,
    emit,
    emit_all,
    emit_rows,
    json_text,
    moment,
    note,
)
from oddarms.documents import Facts, Literal, to_text
from oddarms.errors import InvalidParameter, OddarmsError, StorageFailed
from oddarms.files import write_whole
from oddarms.problem import Question
from oddarms.report import result_json
from oddarms.search import Tickets, facts, guarantee, seconds_of, status_text
from oddarms.studies import SORTS, Overview, Study, StudySummary, Told, Trial, create_study, retried
from oddarms.studies.wire import plain, study_document
from oddarms.tables import csv_text, read_labels, read_results
from oddarms.text import counted, shown

EXIT_DONE, EXIT_WAITING = 3, 4
LEASE_SECONDS = 600.0
LEASE = option(
    "--lease TIME",
    seconds,
    "30s, 10m, at most 1h; after that another worker may get them.",
    "10m",
    default=LEASE_SECONDS,
)
TEXT_OR_JSON = option(
    "--format how",
    click.Choice(["table", "json"]),
    "A table, or JSON for programs.",
    default="table",
)

study = opts.Commands(
    "study",
    help="Create and use studies: searches in a file or database that many workers share.",
)


@command(
    study,
    "create",
    Argument("name", "A new name.", metavar="NAME"),
    opts.ITEMS,
    *opts.SEARCH,
    seed_option("Seed for random choices."),
    opts.STORAGE,
)
def create(given: Given) -> None:
    """Create a study: a search that many workers share.

    \b
    Examples:
      oddarms study create crowd --arms workers.txt --k 2 --delta 0.05
      oddarms study create ads --arms a,b,c --k 1 --bounds 0,100
      oddarms study create tests --arms - --option max_step=50
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    question = Question.of(read_labels(given.arms), opts.words_of(given))
    opts.check_lasting(given.storage)
    made = create_study(given.name, question, rng=given.seed, storage=given.storage)
    where = shown(made.storage)
    emit(f"created {made.name} with {counted(question.n, 'arm')} in {where}\n")


@command(
    study,
    "list",
    option("--sort COLUMN", str, f"{', '.join(SORTS)}; -results: largest first.", default="name"),
    option("--status STATUS", str, "Only studies with this status.", default=""),
    opts.STORAGE,
    opts.FORMAT,
)
def list_studies(given: Given) -> None:
    """List the studies of a storage.

    \b
    Example:
      oddarms study list --storage postgresql://me@host/studies
    """  # noqa: D301
    how, storage = given.how, opts.opened_storage(given.storage)
    found = storage.list(sort=given.sort, status=given.status)
    if how == "table" and not found:
        note("no studies yet: `oddarms study create` makes one")
        return
    header = ["name", "status", "arms", "decided", "outliers", "results", "rate", "seen"]
    rows = [_listed(one) for one in found]
    if how == "table":  # a line has 80 columns
        rows = [(*row[:7], row[7] and f"{row[7]:%m-%d %H:%M} UTC") for row in rows]
    else:
        header += ["k", "delta", "algorithm", "handed_out", "created"]
    emit_rows(how, header, rows, right=header[2:7], wrap="name")


def _listed(one: StudySummary) -> tuple[Any, ...]:
    asked = one.question
    state = (one.status.value, asked.n, one.decided, one.outliers, one.results, one.rate, one.seen)
    return one.name, *state, asked.k, asked.delta, asked.algorithm, one.handed_out, one.created


@command(study, "show", opts.NAME, opts.STORAGE, TEXT_OR_JSON)
def show(given: Given) -> None:
    """Show the question of a study and its progress.

    A ticket is live until it has a result, is given back, or its lease expires. The number of
    samples still needed is an estimate, mostly right within a factor of three.
    """
    study = opts.opened_study(given)
    overview = study.overview()
    if given.how == "json":
        emit(json_text(study_document(study, overview, overview.result.to_dict())))
    else:
        emit(_described(study, overview))


def _described(study: Study, overview: Overview) -> str:
    result, question = overview.result, overview.result.question
    a, b = question.bounds
    options = "".join(f", {key}={value}" for key, value in question.options.items())
    decided = f"{counted(len(result.outliers), 'outlier')}, {len(result.normal):,} normal"
    lines = [
        ("study", f"{study.name}, created {moment(overview.created)}"),
        ("storage", study.storage),
        ("question", question.sentence()),
        ("guarantee", f"{guarantee(question)}; samples in [{a:g}, {b:g}]"),
        ("algorithm", f"{question.algorithm_name}{options}, seed {study.seed}"),
        ("budget", "none" if question.budget is None else counted(question.budget, "sample")),
        ("status", status_text(overview.status)),
        ("arms", f"{decided}, {len(result.undecided):,} undecided"),
        *((name, text) for name, text in facts(result) if name != "status"),
        ("tickets", f"{overview.handed_out:,} handed out, {overview.live:,} of them live"),
        ("results", f"{overview.told:,} recorded, {counted(overview.conflicts, 'conflict')}"),
    ]
    return to_text([Facts([(name, Literal(text)) for name, text in lines])])


@command(study, "result", opts.NAME, opts.STORAGE, opts.RESULT_FORMAT, opts.ALL)
def result(given: Given) -> None:
    """Show the answer, as far as it is known.

    Decisions are final. All intervals hold together with probability 1 - delta. Odds say how
    strong the evidence for a decision is: 1000:1 is a bet won 1000 to 1 against the opposite. JSON
    and CSV list every item.

    \b
    Examples:
      oddarms study result crowd
      oddarms study result crowd --format json
    """  # noqa: D301
    Output(None, given.how, words={"every": given.every}).show(opts.opened_study(given).result())


@command(study, "work", opts.NAME, *SAMPLING, opts.WORKER, opts.STORAGE, opts.QUIET)
def work(given: Given) -> None:
    """Work on a study: ask, sample and tell until it is done.

    Any number of workers may run at once, on one machine or on many. A worker renews its leases as
    long as it lives; if it dies, others take over its samples within a minute. Ctrl-C, SIGTERM
    and SIGHUP end it cleanly, and the same command resumes.

    Exit codes: 0 every item is decided, or the goal was a budget; 3 the budget is used up and some
    are undecided; 1 a sample failed; 2 bad usage; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.

    \b
    Examples:
      oddarms study work tests --pull 'pytest -q {arm}' --jobs 4 --timeout 60
      oddarms study work hosts --python checks:latency --worker "$HOSTNAME"
    """  # noqa: D301
    plan, quiet = Sampling.of(given, {}), given.quiet
    wait = seconds_of("retry_for", plan.policy.retry_for)
    study = retried(lambda: opts.opened_study(given), wait)
    if plan.bounds not in (None, study.question.bounds):
        a, b = study.question.bounds
        raise InvalidParameter(
            f"--clip and --above must match the bounds of the study, {a:g},{b:g}."
        )
    retried(study.take_over, wait)
    output = Output(None, None, quiet)
    found = study.result() if study.done else sample(study, plan, output, given.worker)
    if not quiet:
        note(status_text(found.status))
        note(f"the answer: oddarms study result {shlex.quote(study.name)}")
    if not found.complete and found.question.goal != "budget":
        sys.exit(EXIT_UNFINISHED)


@command(study, "verify", opts.NAME, opts.STORAGE)
def verify(given: Given) -> None:
    """Check the integrity of the database, and replay the study.

    The exit code is 0 if the study is sound and 1 if not.
    """
    study = opts.opened_study(given)
    found = study.verify()
    if not found.ok:
        raise StorageFailed(f"{study.name} is damaged: {'; '.join(found.problems)}.")
    emit(f"{study.name} is sound: {counted(found.results, 'result')}\n")


@command(study, "delete", opts.NAME, flag("--yes -y", "Confirm it."), opts.STORAGE)
def delete(given: Given) -> None:
    """Delete a study with all its results, for good."""
    study = opts.opened_study(given)
    if not given.yes:
        raise InvalidParameter(
            f"--yes is required: it deletes {study.name} from {shown(study.storage)} with all its"
            " results, for good."
        )
    opts.opened_storage(given.storage).delete(given.name)
    emit(f"deleted {study.name} from {shown(study.storage)}\n")


# Tickets and results


@command(
    study,
    "ask",
    opts.NAME,
    option("-n N", int, "Hand out at most this many tickets.", default=1),
    opts.WORKER,
    LEASE,
    opts.STORAGE,
    opts.FORMAT,
)
def ask(given: Given) -> None:
    """Hand out samples to make, as tickets.

    A ticket has an id for `tell`, the item to sample, and the time when its lease expires.

    \b
    Exit codes:
      0    tickets were handed out, perhaps fewer than -n
      3    the study is done: every item is decided, or the budget is used up
      4    nothing to hand out now: other workers have all samples of this
           step; ask again soon
      1    failed; 2 bad usage; 130 interrupted

    \b
    Example:
      oddarms study ask crowd -n 10 --worker "$HOSTNAME" --lease 10m --format csv
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    tickets = opts.opened_study(given).ask(given.n, given.worker, given.lease)
    _show_tickets(given.name, tickets, given.n, given.how)
    if not tickets:
        sys.exit(EXIT_DONE if tickets.done else EXIT_WAITING)


def _show_tickets(name: str, tickets: Tickets, n: int, how: opts.Format) -> None:
    header = ("id", "arm", "expires")
    rows = [(ticket.id, ticket.arm, ticket.expires) for ticket in tickets]
    if how == "json":
        listed = [{name: plain(ticket)[name] for name in header} for ticket in tickets]
        emit(json_text({"status": tickets.status.value, "tickets": listed}))
    elif rows or how == "csv":
        emit_rows(how, header, rows, wrap="arm")
    if how == "table" and len(tickets) < n:
        hint = f"; see `oddarms study result {shlex.quote(name)}`" if tickets.done else ""
        note(f"{status_text(tickets.status)}{hint}")


@command(
    study,
    "tell",
    opts.NAME,
    Argument("ticket", "The id that `ask` printed.", metavar="[TICKET]", required=False),
    Argument("reward", "The sample.", metavar="[VALUE]", type=float, required=False),
    option(
        "--from source FILE|-",
        str,
        "Many results: lines `ticket value`, CSV with the columns ticket (or id) and reward, or"
        " JSON lines with these keys. If one is wrong, none is recorded.",
    ),
    opts.WORKER,
    opts.STORAGE,
    opts.FORMAT,
    context_settings={"ignore_unknown_options": True},  # a value may be negative
)
def tell(given: Given) -> None:
    """Record results of tickets, and print what became of each.

    "recorded": stored for good. "repeated": the same result was already stored and counts once, so
    a command that failed can be repeated. "conflict": a different result was already stored and
    stands; the exit code is then 1. A result may arrive after its lease expired.

    \b
    Examples:
      oddarms study tell crowd 17.3.204.9f86d081884c7d65 0.25
      echo "17.3.204.9f86d081884c7d65 0.25" | oddarms study tell crowd --from -
    """  # noqa: D301
    ticket, reward, source, how = given.ticket, given.reward, given.source, given.how
    if (source is None) == (ticket is None) or (ticket is None) != (reward is None):
        raise InvalidParameter("Give either TICKET and VALUE, or --from FILE.")
    study = opts.opened_study(given)
    if source is not None:
        results = read_results(source, study.question.bounds)
    else:
        results = [(ticket, reward)]
    told = study.tell_many(results, worker=given.worker)
    rows = [(given, outcome.value) for (given, _), outcome in zip(results, told, strict=True)]
    if rows or how != "table":
        emit_rows(how, ("ticket", "outcome"), rows)
    _comment(study, results, told, people=how == "table")


def _comment(
    study: Study, results: Sequence[tuple[str, float]], told: Sequence[Told], *, people: bool
) -> None:
    counts = Counter(outcome.value for outcome in told)
    if people and len(results) != 1:
        said = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())
        note(said or "there were no results")
    conflicts = counts[Told.CONFLICT]
    if conflicts:
        pairs = zip(results, told, strict=True)
        ticket, second = next(pair for pair, outcome in pairs if outcome is Told.CONFLICT)
        first = next(one.first for one in study.conflicts() if one.ticket == ticket)
        others = f" The same holds for {counted(conflicts - 1, 'other result')}."
        note(
            f"error: ticket {ticket} has the result {first!r} already, which stands; {second!r} was"
            f" not used.{others if conflicts > 1 else ''}"
        )
        sys.exit(EXIT_FAILED)


@command(
    study,
    "skip",
    opts.NAME,
    Argument("ticket", "The id that `ask` printed.", metavar="TICKET"),
    option("--reason TEXT", str, "A reason for the log.", default=""),
    opts.STORAGE,
)
def skip(given: Given) -> None:
    """Give a ticket back without a result.

    The sample may be handed out again at once. Do not skip a sample because of the value it would
    have, as that biases the answer: tell such a failure as a value instead.

    \b
    Example:
      oddarms study skip crowd 17.3.204.9f86d081884c7d65 --reason "shutting down"
    """  # noqa: D301
    if opts.opened_study(given).skip(given.ticket, given.reason):
        emit(f"ticket {given.ticket} was given back\n")
        return
    note(f"error: ticket {given.ticket} is not out: it has a result, or its lease had ended.")
    sys.exit(EXIT_FAILED)


@command(
    study,
    "release",
    opts.NAME,
    option("--worker NAME", str, "Take back the tickets of this worker; '' if it has no name."),
    flag("--all every", "Take back all listed tickets."),
    opts.STORAGE,
    opts.FORMAT,
)
def release(given: Given) -> None:
    """Show which workers hold a study up, and take their tickets back.

    Without an option, list the workers whose tickets the current step waits for, since when, and
    when their leases expire. A result that arrives later is still used.

    \b
    Examples:
      oddarms study release crowd
      oddarms study release crowd --worker "lab 2"
    """  # noqa: D301
    study, worker = opts.opened_study(given), given.worker
    if worker is not None or given.every:
        whose = [worker or None] if worker is not None else [one.worker for one in study.holders()]
        count = sum(study.release(one, "released from the command line") for one in whose)
        emit(f"took back {counted(count, 'ticket')}\n")
        return
    found, header = study.holders(), ("worker", "tickets", "since", "expires")
    if found or given.how != "table":
        rows = [list(vars(one).values()) for one in found]
        emit_rows(given.how, header, rows, right=["tickets"], wrap="worker")
    else:
        note("the current step waits for no ticket")


@command(
    study,
    "renew",
    opts.NAME,
    Argument(
        "tickets", "The ids that `ask` printed.", metavar="TICKET...", nargs=-1, required=True
    ),
    LEASE,
    opts.STORAGE,
)
def renew(given: Given) -> None:
    """Extend leases of samples that are still under way.

    A renewed lease lasts the given time from now. With short leases that a worker renews, others
    soon get its tickets if it dies. The exit code is 1 if a lease could not be renewed: the sample
    is no longer needed, but its result would still be used.

    \b
    Example:
      while sleep 20; do oddarms study renew crowd "$ID" --lease 1m; done &
    """  # noqa: D301
    renewed = opts.opened_study(given).renew(given.tickets, given.lease)
    emit(f"renewed {renewed:,} of {counted(len(given.tickets), 'lease')}\n")
    if renewed < len(given.tickets):
        note("the others have a result, or were handed to another worker")
        sys.exit(EXIT_FAILED)


@command(
    study,
    "import",
    opts.NAME,
    Argument("file", "A table with a row per sample: CSV, Excel or Parquet; - for stdin."),
    option("--arm COLUMN", str, "The column of items.", "arm", multiple=True),
    option("--reward COLUMN", str, "The column of values.", "reward"),
    flag("--again", "Import the file even if it was imported before."),
    opts.STORAGE,
)
def import_(given: Given) -> None:
    """Add earlier samples: a history.

    They count as evidence and cost no budget. The guarantee holds if they were drawn like all
    others and the number of samples of an item was not chosen by looking at their values. A file
    with the same bytes is imported only once.
    """
    study, file = opts.opened_study(given), given.file
    columns = {"arm": list(given.arm) or None, "reward": given.reward}
    recorded = opts.add_history(study, file, again=given.again, **columns)
    if recorded == 0:
        note(f"{shown(file)} was imported before and counts once; --again imports it once more.")
    elif study.done:
        note("the study is done: the samples are stored but not used")
    emit(f"imported {counted(recorded, 'sample')}\n")


@command(
    study,
    "export",
    opts.NAME,
    option("--out FILE", Path, "Write to this file instead."),
    opts.STORAGE,
)
def export(given: Given) -> None:
    """Print all results as CSV, in the order of recording."""
    out = given.out
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise InvalidParameter(f"--out must be a file in an existing folder; got {shown(out)}.")
    text = _csv(opts.opened_study(given).trials())
    if out is None:
        emit_all(text)
        return
    write_whole(out, "".join(text))
    note(f"written: {shown(out)}")


@command(
    study,
    "archive",
    Argument("name", "The study.", metavar="[NAME]", required=False),
    option(
        "--inactive TIME",
        seconds,
        "Instead of NAME: all studies without activity for this long.",
    ),
    option("--out DIR", Path, "Folder for the archives; created if missing.", default="archive"),
    opts.STORAGE,
)
def archive(given: Given) -> None:
    """Export studies to files, then delete them.

    Each study gets a folder with question.json, result.json and trials.csv, which `import` reads.
    A study with samples under way is refused: release them first.

    \b
    Examples:
      oddarms study archive crowd --out /backup/studies
      oddarms study archive --inactive 90d --out /backup/studies
    """  # noqa: D301
    if (given.name is None) == (given.inactive is None):
        raise InvalidParameter("Give either the NAME of a study or --inactive.")
    storage = opts.opened_storage(given.storage)
    names = [given.name]
    if given.inactive is not None:
        since = datetime.now(UTC) - timedelta(seconds=given.inactive)
        names = [one.name for one in storage.list() if one.seen < since]
    errors = []
    for name in names:
        try:
            folder = _archived(storage.load(name), given.out)
            storage.delete(name)
        except OddarmsError as error:  # one of many does not keep the others
            errors.append(error)
        else:
            emit(f"archived {shown(name)} in {shown(folder)}\n")
    for other in errors[:-1]:
        note(f"error: {other}")
    if errors:
        raise errors[-1]
    if not names:
        note("no study has been inactive for so long")


def _archived(study: Study, out: Path) -> Path:
    """Write a study to files; refuse one that changes meanwhile."""
    pulse, overview = study.pulse(), study.overview()
    if overview.live:
        raise InvalidParameter(
            f"{study.name} has {counted(overview.live, 'sample')} under way, whose results would be"
            f" lost: `oddarms study release {shlex.quote(study.name)} --all` takes them back."
        )
    folder = out / quote(study.name, safe="")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InvalidParameter(f"{shown(folder)} cannot be created: {error.strerror}.") from None
    try:
        write_whole(folder / "question.json", study.question.to_json())
        write_whole(folder / "result.json", result_json(overview.result))
        write_whole(folder / "trials.csv", "".join(_csv(study.trials())))
        if study.pulse() != pulse:
            said = f"{study.name} changed while it was exported, so it is not deleted."
            raise StorageFailed(said)
    except BaseException:
        shutil.rmtree(folder)  # or the next attempt would be refused
        raise
    return folder


def _csv(trials: Iterator[Trial]) -> Iterator[str]:
    yield csv_text(list(Trial.__dataclass_fields__), [])
    for trial in trials:
        yield csv_text(list(plain(trial).values()), [])
