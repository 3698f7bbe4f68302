"""The commands of ``oddarms study`` that move work and results: ask, tell, skip, import, export."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oddarms.cli._durations import duration_of
from oddarms.cli._guard import EXIT_FAILED
from oddarms.cli._printing import Format, emit, emit_all, emit_rows, json_text, note
from oddarms.cli.study._show import moment
from oddarms.cli.study._storage import (
    FormatOption,
    NameArgument,
    StorageOption,
    opened,
)
from oddarms.errors import InvalidParameter
from oddarms.files import write_whole
from oddarms.search import Tickets
from oddarms.search._text import status_text
from oddarms.studies import Study, Told, Trial
from oddarms.studies._documents import plain, trials_as_csv
from oddarms.tables import csv_text, number_of, read_imports, read_results, ticket_of
from oddarms.text import counted, table

EXIT_DONE, EXIT_WAITING = 3, 4

TicketHelp = "The id that ask printed."
DEFAULT_LEASE = "10m"
LeaseOption = Annotated[
    str, typer.Option(metavar="TIME", help="30s, 10m, 2h or 1d; then somebody else may get them.")
]


class ExportFormat(StrEnum):
    """How trials are written."""

    csv = "csv"
    json = "json"


def ask(
    name: NameArgument,
    n: Annotated[int, typer.Option("-n", help="Most tickets to hand out.")] = 1,
    worker: Annotated[str | None, typer.Option(help="A name for the log.")] = None,
    lease: LeaseOption = DEFAULT_LEASE,
    storage: StorageOption = None,
    how: FormatOption = Format.table,
) -> None:
    """Hand out pulls to make, as tickets.

    A ticket is an id under which to tell the reward, the arm to pull, and when its lease runs out.

    \b
    Exit codes:
      0    tickets were handed out, perhaps fewer than -n
      3    the study is done: every arm is decided, or the budget is used up
      4    nothing to hand out just now, as others have all pulls of this step:
           ask again soon
      1    failed; 2 bad usage; 130 interrupted

    \b
    Example:
      oddarms study ask crowd -n 10 --worker "$HOSTNAME" --lease 10m --format csv
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    duration = duration_of("lease", lease)
    tickets = opened(name, storage).ask(n, worker, duration)
    _show_tickets(name, tickets, n, how)
    if not tickets:
        raise typer.Exit(EXIT_DONE if tickets.done else EXIT_WAITING)


def _show_tickets(name: str, tickets: Tickets, n: int, how: Format) -> None:
    if how is Format.table:
        people = [(ticket.id, ticket.arm, moment(ticket.expires)) for ticket in tickets]
        if people:
            emit(table(("id", "arm", "expires"), people, wrap="arm"))
        if len(tickets) < n:
            hint = f"; see `oddarms study result {shlex.quote(name)}`" if tickets.done else ""
            note(f"{status_text(tickets.status)}{hint}")
        return
    header = ("id", "arm", "expires")
    rows = [(ticket.id, ticket.arm, _iso(ticket.expires)) for ticket in tickets]
    if how is Format.csv:
        emit(csv_text(header, rows))
    else:
        listed = [dict(zip(header, row, strict=True)) for row in rows]
        emit(json_text({"status": tickets.status.value, "tickets": listed}))


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def tell(
    name: NameArgument,
    ticket: Annotated[
        str | None, typer.Argument(metavar="TICKET", help=TicketHelp, show_default=False)
    ] = None,
    reward: Annotated[
        str | None, typer.Argument(metavar="REWARD", help="What the pull gave.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE|-",
            help="Many results: lines `ticket reward`, CSV with the columns ticket (or id) and"
            " reward, or JSON lines with these keys. All are recorded at once or, where one is"
            " wrong, none.",
        ),
    ] = None,
    worker: Annotated[
        str | None, typer.Option(help="A name for the log.", show_default="who asked")
    ] = None,
    storage: StorageOption = None,
    how: FormatOption = Format.table,
) -> None:
    """Record results of tickets, and print what became of each.

    "recorded": stored for good. "repeated": the same result was there already and counts once, so
    a command that failed can be repeated. "conflict": another result was there already and
    stands; the exit code is then 1. A result may come after its lease ran out.

    \b
    Examples:
      oddarms study tell crowd 17-mzxw6ytboi4dgnbt 0.25
      echo "17-mzxw6ytboi4dgnbt 0.25" | oddarms study tell crowd --from -
    """  # noqa: D301
    if (source is None) == (ticket is None) or (ticket is None) != (reward is None):
        raise InvalidParameter(
            "one of TICKET and REWARD, or --from FILE, must say what to tell but got"
            f" {'both' if source is not None else 'none' if ticket is None else 'no REWARD'}."
        )
    study = opened(name, storage)
    bounds = study.question.bounds
    if source is not None:
        results = read_results(source, bounds)
    else:
        results = [(ticket_of(str(ticket)), number_of("reward", str(reward), bounds))]
    told = study.tell_many(results, worker=worker)
    rows = [(given, outcome.value) for (given, _), outcome in zip(results, told, strict=True)]
    if how is not Format.table:
        emit_rows(how, ("ticket", "outcome"), rows)
    elif rows:
        emit(table(("ticket", "outcome"), rows))
    _comment(study, results, told, people=how is Format.table)


def _comment(
    study: Study, results: Sequence[tuple[str, float]], told: Sequence[Told], *, people: bool
) -> None:
    counts = Counter(outcome.value for outcome in told)
    if people and len(results) != 1:
        said = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items())
        note(said or "there were no results, and none was recorded")
    if counts[Told.CONFLICT]:
        pairs = zip(results, told, strict=True)
        ticket, second = next(pair for pair, outcome in pairs if outcome is Told.CONFLICT)
        stored = (one for one in study.conflicts() if one.ticket == ticket)
        first = next(one.first for one in stored)
        others = f", nor were {counts[Told.CONFLICT] - 1:,} other results, for the same reason"
        note(
            f"error: ticket {ticket} has the result {first!r} already, which stands: {second!r} was"
            f" not used{others if counts[Told.CONFLICT] > 1 else ''}."
        )
        raise typer.Exit(EXIT_FAILED)


def skip(
    name: NameArgument,
    ticket: Annotated[str, typer.Argument(metavar="TICKET", help=TicketHelp)],
    reason: Annotated[str, typer.Option(help="A reason for the log.", show_default=False)] = "",
    storage: StorageOption = None,
) -> None:
    """Give a ticket back without a result.

    Its pull may be handed out again at once. Not for pulls that fail because of what they would
    have given: tell these as a reward.

    \b
    Example:
      oddarms study skip crowd 17-mzxw6ytboi4dgnbt --reason "shutting down"
    """  # noqa: D301
    given = ticket_of(ticket)
    opened(name, storage).skip(given, reason)
    emit(f"ticket {given} was given back\n")


def renew(
    name: NameArgument,
    tickets: Annotated[list[str], typer.Argument(metavar="TICKET...", help=TicketHelp)],
    lease: LeaseOption = DEFAULT_LEASE,
    storage: StorageOption = None,
) -> None:
    """Let leases last longer, as their pulls are still under way.

    They then run out the given time from now. A worker that renews its short leases while it works
    keeps them, and if it dies nobody waits for it for long. The exit code is 1 if one could not be
    renewed: its pull is no longer wanted, though its result would still be taken.

    \b
    Example:
      while sleep 20; do oddarms study renew crowd "$ID" --lease 1m; done &
    """  # noqa: D301
    given = [ticket_of(ticket) for ticket in tickets]
    renewed = opened(name, storage).renew(given, duration_of("lease", lease))
    emit(f"renewed {renewed:,} of {counted(len(given), 'lease')}\n")
    if renewed < len(given):
        note("the others have a result, or their pulls were handed to somebody else")
        raise typer.Exit(EXIT_FAILED)


def import_(
    name: NameArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="A table with the columns arm and reward, a row per reward; gzipped or not.",
        ),
    ],
    again: Annotated[
        bool, typer.Option("--again", help="Even if the same file was imported before.")
    ] = False,
    storage: StorageOption = None,
) -> None:
    """Record rewards that nobody asked for, to be used as evidence.

    They count as evidence and cost no budget. The guarantee stays if they were drawn like all
    others and how many an arm has was not decided by looking at them. The same file, byte for
    byte, is imported once. Other layouts that `oddarms reproduce --data` reads are understood,
    too.

    \b
    Example:
      oddarms study import crowd last-month.csv
    """  # noqa: D301
    study = opened(name, storage)
    imports = read_imports(file, study.question.bounds, study.labels)
    recorded = study.import_rewards(imports.rewards, key=imports.sha256)
    if recorded == 0 and again:
        recorded = study.import_rewards(imports.rewards)
    if recorded == 0:
        note(f"{imports.source} was imported before and counts once; --again imports it once more.")
    elif study.done:
        note("the study is done: the rewards are stored but not used")
    emit(f"imported {counted(recorded, 'reward')}\n")


def export(
    name: NameArgument,
    how: Annotated[ExportFormat, typer.Option("--format", help="CSV, or a JSON list.")] = (
        ExportFormat.csv
    ),
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
    if out is not None and out.is_dir():
        raise InvalidParameter(f"out must be a file but {out} is a directory.")
    if out is not None and not out.parent.is_dir():
        raise InvalidParameter(f"out must be in a directory but {out.parent} is not one.")
    trials = opened(name, storage).trials()
    text = trials_as_csv(trials) if how is ExportFormat.csv else _json(trials)
    if out is None:
        emit_all(text)
        return
    write_whole(out, "".join(text))
    note(f"written: {out}")


def _json(trials: Iterator[Trial]) -> Iterator[str]:
    yield "["
    for i, trial in enumerate(trials):
        yield ("," if i else "") + "\n" + json.dumps(plain(trial))
    yield "\n]\n"
