"""What ``oddarms study show`` and ``oddarms study result`` say."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.cli._printing import shown, table
from oddarms.problem import Problem
from oddarms.search import Result
from oddarms.search._progress import progress_of
from oddarms.studies import Question, Status, Study
from oddarms.studies import _records as records

MEANING = {
    Status.OPEN: "there are pulls to hand out",
    Status.WAITING: "all pulls of this step are out",
    Status.DECIDED: "every arm is decided",
    Status.BUDGET: "the budget does not allow another step",
}
LOG_OF_MOST_ODDS = 700.0


@dataclass(frozen=True)
class State:
    """A study at one moment.

    Attributes
    ----------
    created, status, result
        As of the study.
    handed_out, live
        All tickets, and those whose results may still be on the way.
    told, imported, conflicts
        Results of tickets, results nobody asked for, and results that were refused.
    pulls_needed
        About how many pulls are still to come; None if there is no guess.
    """

    created: datetime
    status: Status
    result: Result
    handed_out: int
    live: int
    told: int
    imported: int
    conflicts: int
    pulls_needed: float | None


def state_of(study: Study) -> State:
    """Return where a study stands, all of it at the same moment."""
    import sqlalchemy as sa

    question = study.question
    problem = Problem(
        study.labels,
        k=question.k,
        delta=question.delta,
        bounds=question.bounds,
        side=question.side,
    )
    counts = sa.text("SELECT tickets, created FROM studies WHERE id = :study")
    with study._lock, study._database.reading() as connection:
        machine = study._current(connection)
        work, live = study._work(connection, machine, time.time(), 1)
        handed_out, created = connection.execute(counts, {"study": study._number}).one()
        return State(
            created=datetime.fromtimestamp(created, UTC),
            status=study._status(machine, out=live, more=bool(work)),
            result=replace(machine.search.result(), problem=problem),
            handed_out=int(handed_out),
            live=live,
            told=machine.told,
            imported=machine.taken - machine.told,
            conflicts=sum(1 for _ in records.conflict_rows(connection, study._number)),
            pulls_needed=progress_of(machine.search).pulls_needed,
        )


def _where(question: Question) -> str:
    above, below = (f"mean {_signed(k)} sd" for k in (question.k, -question.k))
    return {
        "upper": f"at or above {above}",
        "lower": f"at or below {below}",
        "both": f"at or above {above}, or at or below {below},",
    }[question.side]


def _signed(k: float) -> str:
    return f"{'-' if k < 0 else '+'} {abs(k):g}"


def fields(study: Study, state: State) -> dict[str, Any]:
    """Return all about a study as plain values."""
    result = state.result
    asked = asdict(study.question)
    return {
        "name": study.name,
        "storage": study.storage,
        "created": state.created.isoformat(),
        "status": state.status.value,
        "arms": asked.pop("n"),
        **asked,
        "bounds": list(study.question.bounds),
        "outliers": len(result.outliers),
        "normal": len(result.normal),
        "undecided": len(result.undecided),
        "handed_out": state.handed_out,
        "live": state.live,
        "results": state.told,
        "imported": state.imported,
        "conflicts": state.conflicts,
        "pulls_needed": state.pulls_needed,
        "thresholds": result.to_dict()["thresholds"],
    }


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields for a row of CSV, with a column for each part of those that have parts."""
    row = {key: value for key, value in values.items() if key not in ("options", "thresholds")}
    row["bounds"] = " ".join(f"{bound:g}" for bound in values["bounds"])
    row["options"] = " ".join(f"{key}={value}" for key, value in values["options"].items())
    for side, threshold in values["thresholds"].items():
        row.update({f"{side}_threshold_{end}": value for end, value in threshold.items()})
    return row


def described(study: Study, state: State) -> str:
    """Return all about a study, a line for each thing."""
    question, result = study.question, state.result
    a, b = question.bounds
    options = "".join(f", {key}={value}" for key, value in question.options.items())
    counts = {name: len(getattr(result, name)) for name in ("outliers", "normal", "undecided")}
    arms = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    budget = "none" if question.budget is None else f"{question.budget:,} pulls"
    needed = "unknown yet" if state.pulls_needed is None else f"about {state.pulls_needed:,.0f}"
    lines = [
        ("Study", f"{study.name}, created {moment(state.created)}"),
        ("Storage", study.storage),
        ("Question", f"which of {question.n:,} arms have a mean"),
        ("", f"{_where(question)} of all means?"),
        ("", f"wrong with probability at most {question.delta:g}; rewards in [{a:g}, {b:g}]"),
        ("Algorithm", f"{question.algorithm}{options}, seed {question.seed}"),
        ("Budget", budget),
        ("Status", f"{state.status}: {MEANING[state.status]}"),
        ("Arms", arms),
        ("Tickets", f"{state.handed_out:,} handed out, {state.live:,} of them live"),
        ("Results", f"{state.told:,} of tickets, {state.imported:,} imported"),
        ("Conflicts", f"{state.conflicts:,}"),
        *(("Threshold", line) for line in _thresholds(result)),
        ("Pulls left", needed),
    ]
    return _listed(lines)


def _thresholds(result: Result) -> Iterator[str]:
    form = _form(result.problem.bounds)
    for side, (estimate, lower, upper) in result.thresholds.items():
        k = result.problem.k if side == "upper" else -result.problem.k
        if np.isfinite([estimate, lower, upper]).all():
            ends = f"[{lower:{form}}, {upper:{form}}]"
            yield f"mean {_signed(k)} sd is {estimate:{form}}, in {ends}"
        else:
            yield f"mean {_signed(k)} sd is not known yet"


def answer(study: Study, state: State, *, every: bool) -> str:
    """Return the outliers, or every arm, and a summary."""
    result = state.result
    rows = [i for i, d in enumerate(result.decisions) if every or d >= Decision.HIGH]
    outliers, undecided = len(result.outliers), len(result.undecided)
    lines = [
        ("Study", study.name),
        ("Status", f"{state.status}: {MEANING[state.status]}"),
        ("Outliers", f"{outliers:,} of {result.problem.n:,} arms, {undecided:,} undecided"),
        *(("Threshold", line) for line in _thresholds(result)),
        ("Pulls", f"{result.pulls:,} used, and {result.imported:,} imported rewards"),
    ]
    return (_table_of(result, rows) + "\n" if rows else "") + _listed(lines)


def _listed(lines: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{f'{name}:' if name else '':11} {shown(text)}\n" for name, text in lines)


def _table_of(result: Result, arms: Sequence[int]) -> str:
    form = _form(result.problem.bounds)
    rows = []
    for i in arms:
        lower, upper = result.intervals[i]
        mean = result.means[i]
        rows.append(
            (
                result.labels[i],
                Decision(result.decisions[i]).name.lower(),
                "-" if np.isnan(mean) else f"{mean:{form}}",
                f"[{lower:{form}}, {upper:{form}}]",
                _odds(None if result.evidence is None else float(result.evidence[i])),
                f"{result.pulls_per_arm[i]:,}",
            )
        )
    header = ("arm", "decision", "mean", "interval", "odds", "pulls")
    return table(header, rows, right=("mean", "odds", "pulls"), shorten="arm")


def _form(bounds: tuple[float, float]) -> str:
    """Return how to print rewards: a thousandth of their range, or four digits if that is odd."""
    digits = 3 - math.floor(math.log10(bounds[1] - bounds[0]))
    return f".{max(digits, 0)}f" if -3 <= digits <= 9 else ".4g"


def _odds(evidence: float | None) -> str:
    if evidence is None or np.isnan(evidence):
        return "-"
    if evidence > LOG_OF_MOST_ODDS:
        return ">1e+304"
    return f"{np.exp(evidence):.3g}"


def moment(time: datetime) -> str:
    """Return a time for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")
