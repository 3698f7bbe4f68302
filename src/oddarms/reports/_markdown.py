"""The answer as Markdown, for the summary of a CI job.

Labels and messages are hostile input: whatever they are made of, they are text in the page.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oddarms.documents import visible
from oddarms.search import ARMS, Result, Subject
from oddarms.search._text import (
    HEADS,
    cell,
    comparison,
    cost,
    figures,
    headline,
    innocence,
    number_style,
    status_text,
    still_needed,
    threshold_lines,
)
from oddarms.text import counted

LISTED = 500
"""Rows of a table; a job's summary may have a megabyte."""
UNFOLDED = 20
"""Rows that are seen at once; the others unfold."""


@dataclass(frozen=True)
class LeftOut:
    """Things that are not compared, and why.

    Attributes
    ----------
    title
        What they are.
    things
        Each with a few words of its own, which may be empty.
    """

    title: str
    things: Sequence[tuple[str, str]]


def result_markdown(
    result: Result,
    *,
    subject: Subject = ARMS,
    left_out: Sequence[LeftOut] = (),
    details: Mapping[Any, str] | None = None,
    notes: Sequence[str] = (),
    every: bool = False,
) -> str:
    """Return an answer as Markdown that GitHub, GitLab and others show as tables.

    Parameters
    ----------
    result
        The answer, complete or not.
    subject
        What the arms are.
    left_out
        What is not compared.
    details
        More about some of the arms, such as how a test failed last.
    notes
        Further lines below the answer.
    every
        Whether to list the normal arms, too.
    """
    first, *more = headline(result, subject).splitlines()
    parts = [f"### {_prose(first)}"]
    parts += ["  \n".join(map(_prose, more))] if more else []
    tables = _Tables(result, subject, details or {})
    parts += tables.outliers()
    parts += _left_out_parts(left_out)
    parts += tables.undecided()
    if every:
        parts += tables.normal()
    parts += _list("Figures", [*_figures(result, subject), *notes])
    return "\n\n".join(part for part in parts if part) + "\n"


def nothing_compared_markdown(
    sentence: str, left_out: Sequence[LeftOut], notes: Sequence[str]
) -> str:
    """Return why there is no answer, as Markdown."""
    parts = [f"### {_prose(sentence)}", *_left_out_parts(left_out), *_list("Figures", notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _list(title: str, lines: Sequence[str]) -> list[str]:
    """Return sentences as a list; without a title it would go on with a list before it."""
    return [f"**{title}**", "\n".join(f"- {_prose(line)}" for line in lines)] if lines else []


def _left_out_parts(groups: Sequence[LeftOut]) -> list[str]:
    """Return lists of things that are not compared."""
    parts = []
    for group in groups:
        if group.things:
            lines = [
                f"- {code(label)}{f': {_prose(why)}' if why else ''}"
                for label, why in group.things[:LISTED]
            ]
            lines += _others(len(group.things), "- ")
            parts.append("\n".join([f"**{_prose(group.title)}**", "", *lines]))
    return parts


def code(text: object) -> str:
    """Return a text as code that nothing in it can end, also in a cell of a table.

    Examples
    --------
    >>> code("tests/test_a.py::test_b[1]"), code("a|b"), code("`<b>`")
    ('`tests/test_a.py::test_b[1]`', '<code>a&#124;b</code>', '<code>&#96;&lt;b&gt;&#96;</code>')
    """
    seen = visible(text)
    if not set(seen) & set("`|"):
        return f"`{seen}`"
    return f"<code>{_entities(seen)}</code>"


def _prose(text: str) -> str:
    """Return a sentence of ours, which may have a label in it, as plain text."""
    return _entities(visible(text), "`|\\<>*_&#~@$!").replace("](", "]&#40;")


def _entities(text: str, which: str = "`|\\*_[]&#~@$!:<>") -> str:
    escaped = (html.escape(c) if c in "<>&" else f"&#{ord(c)};" if c in which else c for c in text)
    return "".join(escaped)


def _figures(result: Result, subject: Subject) -> list[str]:
    lines = [*threshold_lines(result, subject), f"{subject.samples}: {cost(result)}"]
    lines.append(comparison(result))
    if not result.complete:
        lines += [
            f"status: {status_text(result.status, subject)}",
            *still_needed(result, subject).splitlines(),
        ]
    whole: list[str] = []
    for line in filter(None, (line.rstrip() for line in lines)):
        if line.startswith(" "):  # what a terminal has in the next line belongs to the one before
            whole[-1] += f"; {line.strip()}"
        else:
            whole.append(line)
    return whole


def _others(count: int, before: str = "") -> list[str]:
    hidden = count - LISTED
    return [f"{before}... and {counted(hidden, 'other')}"] if hidden > 0 else []


def _table_text(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class _Tables:
    """Tables of arms."""

    def __init__(self, result: Result, subject: Subject, details: Mapping[Any, str]) -> None:
        self.result, self.subject, self.details = result, subject, details
        self._rows = result.rows()
        self._style = number_style(result.question, subject)

    def outliers(self) -> list[str]:
        """Return those that are abnormal, the highest first."""
        return self._table(("high", "low"), lambda row: -(row["mean"] or 0.0), ["odds"])

    def undecided(self) -> list[str]:
        """Return those of which nothing can be said yet."""
        columns = ["guess"] + ["needed"] * (self.result.pulls_needed is not None)
        title = "Undecided, the most suspicious first; guesses are not proven"
        return self._table(("undecided",), innocence, columns, title)

    def normal(self) -> list[str]:
        """Return those that are not."""
        return self._table(("normal",), lambda row: -(row["mean"] or 0.0), ["odds"], "Normal")

    def _table(
        self,
        decisions: Sequence[str],
        order: Callable[[dict[str, Any]], float],
        columns: list[str],
        title: str = "",
    ) -> list[str]:
        rows = sorted((row for row in self._rows if row["decision"] in decisions), key=order)
        if not rows:
            return []
        subject = self.subject
        detailed = any(self.details.get(row["label"]) for row in rows)
        heads = [subject.label, subject.mean, "interval", subject.samples]
        heads += [HEADS.get(column, column) for column in columns]
        heads += ["last failure"] * detailed
        text = [column == "guess" for column in columns]
        sides = ["---", "---:", "---:", "---:", *("---" if t else "---:" for t in text)]
        head = [heads, sides + ["---"] * detailed]
        body = [self._cells(row, columns, detailed=detailed) for row in rows[:LISTED]]
        parts = [f"**{title}**" if title else "", _table_text([*head, *body[:UNFOLDED]])]
        if len(body) > UNFOLDED:
            more = counted(len(body) - UNFOLDED, "other")
            parts += [f"<details><summary>{more}</summary>", _table_text([*head, *body[UNFOLDED:]])]
            parts.append("</details>")
        return [*parts, *_others(len(rows))]

    def _cells(self, row: dict[str, Any], columns: list[str], *, detailed: bool) -> list[str]:
        cells = [code(row["label"]), *figures(row, self._style)]
        cells += [cell(row, column, self.subject).replace("<", "&lt;") for column in columns]
        if detailed:
            detail = self.details.get(row["label"], "")
            cells.append(code(detail) if detail else "")
        return cells
