"""The commands of ``oddarms study`` that move work and results: ask, tell, import, export ..."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from oddarms.cli._options import (
    Format,
    FormatOption,
    NameArgument,
    StorageOption,
    file_of,
    opened_study,
    seconds,
)
from oddarms.cli._terminal import EXIT_FAILED, emit, emit_all, emit_rows, json_text, note
from oddarms.errors import InvalidParameter
from oddarms.files import write_whole
from oddarms.search import Tickets, status_text
from oddarms.studies import Study, Told, Trial
from oddarms.studies.wire import plain
from oddarms.tables import csv_text, read_results
from oddarms.text import counted, shown, table

EXIT_DONE, EXIT_WAITING = 3, 4
LEASE_SECONDS = 600.0
TicketHelp = "The id that ask printed."
LeaseOption = Annotated[
    float,
    typer.Option(
        parser=seconds,
        metavar="TIME",
        help="30s, 10m, at most 1h; then another worker may get them.",
        show_default="10m",
    ),
]


def moment(time: datetime | None) -> str:
    """Return a time for people."""
    return "" if time is None else time.strftime("%Y-%m-%d %H:%M:%S UTC")


def ask(
    name: NameArgument,
    n: Annotated[int, typer.Option("-n", help="Largest number of tickets.")] = 1,
    worker: Annotated[str | None, typer.Option(help="A name for the log.")] = None,
    lease: LeaseOption = LEASE_SECONDS,
    storage: StorageOption = None,
    how: FormatOption = "table",
) -> None:
    """Hand out samples to make, as tickets.

    A ticket is an id under which to tell the value, the item to sample, and when its lease expires.

    \b
    Exit codes:
      0    tickets were handed out, perhaps fewer than -n
      3    the study is done: every item is decided, or the budget is used up
      4    nothing to hand out now, as others have all samples of this step:
           ask again soon
      1    failed; 2 bad usage; 130 interrupted

    \b
    Example:
      oddarms study ask crowd -n 10 --worker "$HOSTNAME" --lease 10m --format csv
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    tickets = opened_study(name, storage).ask(n, worker, lease)
    _show_tickets(name, tickets, n, how)
    if not tickets:
        raise typer.Exit(EXIT_DONE if tickets.done else EXIT_WAITING)


def _show_tickets(name: str, tickets: Tickets, n: int, how: Format) -> None:
    header = ("id", "arm", "expires")
    if how == "table":
        rows = [(ticket.id, ticket.arm, moment(ticket.expires)) for ticket in tickets]
        if rows:
            emit(table(header, rows, wrap="arm"))
        if len(tickets) < n:
            hint = f"; see `oddarms study result {shlex.quote(name)}`" if tickets.done else ""
            note(f"{status_text(tickets.status)}{hint}")
        return
    plain_rows = [
        (t.id, t.arm, None if t.expires is None else t.expires.isoformat()) for t in tickets
    ]
    if how == "csv":
        emit(csv_text(header, plain_rows))
    else:
        listed = [dict(zip(header, row, strict=True)) for row in plain_rows]
        emit(json_text({"status": tickets.status.value, "tickets": listed}))


def tell(
    name: NameArgument,
    ticket: Annotated[
        str | None, typer.Argument(metavar="TICKET", help=TicketHelp, show_default=False)
    ] = None,
    reward: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The sample.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE|-",
            help="Many results: lines `ticket value`, CSV with the columns ticket (or id) and"
            " reward, or JSON lines with these keys. All are recorded or, if one is wrong, none.",
        ),
    ] = None,
    worker: Annotated[str | None, typer.Option(help="A name for the log.")] = None,
    storage: StorageOption = None,
    how: FormatOption = "table",
) -> None:
    """Record results of tickets, and print what became of each.

    "recorded": stored for good. "repeated": the same result was there already and counts once, so
    a command that failed can be repeated. "conflict": another result was there already and stands;
    the exit code is then 1. A result may come after its lease expired.

    \b
    Examples:
      oddarms study tell crowd 17.3.204.mzxw6ytboi4dgnbt 0.25
      echo "17.3.204.mzxw6ytboi4dgnbt 0.25" | oddarms study tell crowd --from -
    """  # noqa: D301
    if (source is None) == (ticket is None) or (ticket is None) != (reward is None):
        raise InvalidParameter("Give either TICKET and VALUE, or --from FILE.")
    study = opened_study(name, storage)
    if source is not None:
        results = read_results(source, study.question.bounds)
    else:
        results = [(str(ticket), _number(str(reward)))]
    told = study.tell_many(results, worker=worker)
    rows = [(given, outcome.value) for (given, _), outcome in zip(results, told, strict=True)]
    if how != "table":
        emit_rows(how, ("ticket", "outcome"), rows)
    elif rows:
        emit(table(("ticket", "outcome"), rows))
    _comment(study, results, told, people=how == "table")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(f"VALUE must be a number but got {shown(text)!r}.") from None


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
        raise typer.Exit(EXIT_FAILED)


def skip(
    name: NameArgument,
    ticket: Annotated[str, typer.Argument(metavar="TICKET", help=TicketHelp)],
    reason: Annotated[str, typer.Option(help="A reason for the log.", show_default=False)] = "",
    storage: StorageOption = None,
) -> None:
    """Give a ticket back without a result.

    Its sample may be handed out again at once. Do not skip a sample because of the value it would
    have: that selects samples. Tell such a failure as a value instead.

    \b
    Example:
      oddarms study skip crowd 17.3.204.mzxw6ytboi4dgnbt --reason "shutting down"
    """  # noqa: D301
    opened_study(name, storage).skip(ticket, reason)
    emit(f"ticket {ticket} was given back\n")


def renew(
    name: NameArgument,
    tickets: Annotated[list[str], typer.Argument(metavar="TICKET...", help=TicketHelp)],
    lease: LeaseOption = LEASE_SECONDS,
    storage: StorageOption = None,
) -> None:
    """Extend leases of samples that are still under way.

    They then expire the given time from now. A worker with short leases that it renews keeps its
    tickets, and if it dies nobody waits for it for long. The exit code is 1 if a lease could not be
    renewed: its sample is no longer needed, though its result would still be taken.

    \b
    Example:
      while sleep 20; do oddarms study renew crowd "$ID" --lease 1m; done &
    """  # noqa: D301
    renewed = opened_study(name, storage).renew(tickets, lease)
    emit(f"renewed {renewed:,} of {counted(len(tickets), 'lease')}\n")
    if renewed < len(tickets):
        note("the others have a result, or were handed to another worker")
        raise typer.Exit(EXIT_FAILED)


def import_(
    name: NameArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="A table with a row per sample: CSV, Excel, Parquet."
        ),
    ],
    arm: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="The column of items.", show_default="arm"),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of values.", show_default="reward"),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Even if the same file was imported before.")
    ] = False,
    storage: StorageOption = None,
) -> None:
    """Add samples from before: a history.

    They count as evidence and cost no budget. The guarantee holds if they were drawn like all
    others and how many an item has was not decided by looking at them. The same file, byte for
    byte, is imported once.

    \b
    Example:
      oddarms study import crowd last-month.csv
    """  # noqa: D301
    study = opened_study(name, storage)
    with file_of(file) as path:
        try:
            key = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise InvalidParameter(f"Cannot read {shown(file)}: {error.strerror}.") from None
        recorded = study.add_history(path, key=key, arm=arm, reward=reward)
        if recorded == 0 and again:
            recorded = study.add_history(path, arm=arm, reward=reward)
    if recorded == 0:
        note(f"{shown(file)} was imported before and counts once; --again imports it once more.")
    elif study.done:
        note("the study is done: the samples are stored but not used")
    emit(f"imported {counted(recorded, 'sample')}\n")


def export(
    name: NameArgument,
    how: Annotated[
        Literal["csv", "json"], typer.Option("--format", help="CSV, or a JSON list.")
    ] = "csv",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file instead of stdout.")
    ] = None,
    storage: StorageOption = None,
) -> None:
    """Write all results, in the order in which they were recorded.

    \b
    Example:
      oddarms study export crowd --out trials.csv
    """  # noqa: D301
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise InvalidParameter(f"--out must be a file in an existing folder; got {shown(out)}.")
    trials = opened_study(name, storage).trials()
    text = _csv(trials) if how == "csv" else _json(trials)
    if out is None:
        emit_all(text)
        return
    write_whole(out, "".join(text))
    note(f"written: {shown(out)}")


def _csv(trials: Iterator[Trial]) -> Iterator[str]:
    yield csv_text(list(Trial.__dataclass_fields__), [])
    for trial in trials:
        yield csv_text(list(plain(trial).values()), [])


def _json(trials: Iterator[Trial]) -> Iterator[str]:
    yield "["
    for i, trial in enumerate(trials):
        yield ("," if i else "") + "\n" + json.dumps(plain(trial))
    yield "\n]\n"
