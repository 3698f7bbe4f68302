"""What ``oddarms study show`` says of a study."""

from __future__ import annotations

import textwrap
from datetime import datetime
from typing import Any

from oddarms.search._text import cost, in_all_needed, rough, status_text, threshold_lines
from oddarms.studies import Overview, Study
from oddarms.studies._documents import study_document
from oddarms.text import counted, shown


def fields(study: Study, overview: Overview) -> dict[str, Any]:
    """Return all about a study as plain values, but for the arms."""
    return study_document(study, overview, overview.result.to_dict())


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields for a row of CSV, with a column for each part of those that have parts."""
    question = values["question"]
    row = {key: value for key, value in values.items() if key not in ("question", "thresholds")}
    row |= {key: value for key, value in question.items() if key not in ("labels", "version")}
    row["bounds"] = " ".join(f"{bound:g}" for bound in question["bounds"])
    row["options"] = " ".join(f"{key}={value}" for key, value in question["options"].items())
    for side, threshold in values["thresholds"].items():
        row.update({f"{side}_threshold_{end}": value for end, value in threshold.items()})
    return row


def described(study: Study, overview: Overview) -> str:
    """Return all about a study, a line for each thing."""
    result = overview.result
    question = result.question
    a, b = question.bounds
    error = question.risk
    options = "".join(f", {key}={value}" for key, value in question.options.items())
    arms = (
        f"{counted(len(result.outliers), 'outlier')}, {len(result.normal):,} normal,"
        f" {len(result.undecided):,} undecided"
    )
    needed = in_all_needed(result)
    tickets = f"{overview.handed_out:,} handed out, {overview.live:,} of them live"
    results = f"{overview.told:,} recorded, {counted(overview.conflicts, 'conflict')}"
    sentence = textwrap.wrap(question.sentence(), 68)
    lines = [
        ("Study", f"{study.name}, created {moment(overview.created)}"),
        ("Storage", study.storage),
        *zip(["Question", *[""] * len(sentence)], sentence, strict=False),
        ("", f"wrong with probability at most {min(error, 1.0):g}; rewards in [{a:g}, {b:g}]"),
        *_changes(study),
        ("Algorithm", f"{question.algorithm}{options}, seed {study.seed}"),
        ("Budget", "none" if question.budget is None else counted(question.budget, "sample")),
        ("Status", status_text(overview.status)),
        ("Arms", arms),
        *(("Threshold", line.replace(" threshold", "", 1)) for line in threshold_lines(result)),
        ("Samples", cost(result)),
        ("Needed", _needed(needed)),
        ("Tickets", tickets),
        ("Results", results),
    ]
    return listed(lines)


def _needed(needed: float | None) -> str:
    if needed is None:
        return "not known yet"
    return rough(needed, "samples") if needed else "nothing"


def _changes(study: Study) -> list[tuple[str, str]]:
    """Return how often the question was changed, where it was."""
    revisions = study.revisions()
    if not revisions:
        return []
    times = f"{counted(len(revisions), 'time')}, last {moment(revisions[-1].made)}"
    return [("Revised", times)]


def listed(lines: list[tuple[str, str]]) -> str:
    """Return names and texts in two columns."""
    return "".join(f"{f'{name}:' if name else '':11} {shown(text)}\n" for name, text in lines)


def moment(time: datetime | None) -> str:
    """Return a time for people."""
    return "" if time is None else time.strftime("%Y-%m-%d %H:%M:%S UTC")
