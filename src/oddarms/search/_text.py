"""A result in words, for a terminal: what Python prints is what the shell prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oddarms.algorithms import Algorithm, get_algorithm
from oddarms.problem import Question
from oddarms.search._subject import ARMS, Subject
from oddarms.search._tickets import Status
from oddarms.text import about, counted, table

if TYPE_CHECKING:
    from oddarms.search._result import Result

MOST_SHOWN = 20
WIDTH = 79
LARGEST_ODDS = 1e100
ROUGH = 3.0
"""By what factor a guess of the samples to come may well be off: measured, see docs/find.md."""
HEADS = {"guess": "guess (doubt)"}
"""Of columns that are not called what they are."""
MOST_OF_A_LINE = 20
"""Characters of what a threshold is made of, before its value."""


def answer(result: Result, *, every: bool = False, subject: Subject = ARMS) -> str:
    """Return the answer: how many outliers, which, the threshold, the cost, what is open.

    Parameters
    ----------
    result
        The result.
    every
        Whether to list all arms, not only the first outliers and undecided ones.
    subject
        What the arms are.
    """
    rows = result.rows()
    odd = [row for row in rows if row["decision"] in ("high", "low")]
    arms = _Arms(result.question, subject)
    parts = [headline(result, subject)]
    if every:
        parts.append(arms.table(rows, ("decision",), most=len(rows)))
    elif odd:
        parts.append(arms.table(sorted(odd, key=lambda row: -(row["mean"] or 0.0)), ("odds",)))
    parts += [f"{line}\n" for line in threshold_lines(result, subject)]
    parts.append(f"{subject.samples}: {cost(result)}\n{comparison(result)}")
    if not result.complete:
        status = status_text(result.status, subject)
        parts.append(f"status: {status}\n{still_needed(result, subject)}")
    undecided = [row for row in rows if row["decision"] == "undecided"]
    if undecided and not every:
        parts.append("\nundecided, the most suspicious first; guesses are not proven:\n")
        columns = ("guess",) if result.pulls_needed is None else ("guess", "needed")
        parts.append(arms.table(sorted(undecided, key=innocence), columns))
    return "".join(parts)


def headline(result: Result, subject: Subject = ARMS) -> str:
    """Return the first lines: the answer, what it is worth, and what it means."""
    question = result.question
    odd, n, undecided = len(result.outliers), question.n, len(result.undecided)
    sure = guarantee(question)
    if not result.complete:
        best = best_guess(result, subject) if question.goal == "budget" else ""
        known = subject.are_odd(odd, known=True)
        still = "is undecided" if undecided == 1 else "are undecided"
        things = f"{odd:,} of {n:,} {subject.things}"
        text = f"{things} {known}{nearly(question)}, {undecided:,} {still}\n"
        text += f"what is decided: {sure}\n" if undecided < n else ""
        return best + (text if odd else text + farthest_text(result, subject))
    if odd:
        text = f"{odd:,} of {n:,} {subject.things} {subject.are_odd(odd)}"
        return with_guarantee(f"{text}{nearly(question)}", sure)
    among = f"among {n:,} {subject.things}"
    text = with_guarantee(f"nothing stands out {among}{nearly(question)}", sure)
    if not question.can_have_outliers:
        needed = f"no {subject.sample} was needed"
        return text + f"{needed}: {among} none can be {question.k:g} sd out\n"
    return text + farthest_text(result, subject)


def with_guarantee(text: str, sure: str) -> str:
    """Return an answer and what it is worth, on one line if there is room."""
    room = len(text) + len(sure) + 3 <= WIDTH
    return f"{text} ({sure})\n" if room else f"{text}\n({sure})\n"


def best_guess(result: Result, subject: Subject = ARMS) -> str:
    """Return the guess about all arms, and the doubt about it, as two lines."""
    odd, n = len(result.guess), result.question.n
    return (
        f"best guess: {odd:,} of {n:,} {subject.things} {subject.are_odd(odd)}\n"
        f"something in it is wrong with probability at most about {result.doubt:.2g}\n"
        "(not proven)\n"
    )


def is_proven(question: Question) -> bool:
    """Return whether a theorem bounds the error of the question's algorithm."""
    algorithm = question.algorithm
    cls: type[Algorithm] = get_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
    return cls.proven


def guarantee(question: Question) -> str:
    """Return what an answer is worth."""
    delta = question.risk
    if not is_proven(question):
        return f"in simulations wrong at most {100.0 * delta:g} % of the time; not proven"
    if question.error == "fdr":
        return f"on average at most {50.0 * delta:g} % of the names on either side are wrong"
    sure = f"right with probability at least {1.0 - delta:g}"
    return f"{sure}, as margin or floor were changed" if question.revised else sure


def nearly(question: Question) -> str:
    """Return what an indifference makes of the answer."""
    if question.indifference == 0.0:
        return ""
    return f", give or take {question.indifference:g} at the threshold"


def farthest_text(result: Result, subject: Subject = ARMS) -> str:
    """Return how far out any arm can be at most, as a line; nothing where little is known."""
    style, (a, b) = number_style(result.question, subject), result.question.bounds
    words = {"upper": "above", "lower": "below"}
    known = {side: far for side, far in result.farthest.items() if far < 0.75 * (b - a)}
    parts = [f"more than {_number(far, style)} {words[side]}" for side, far in known.items()]
    whose = result.question.centre_phrase
    return f"no {subject.rate} is {' or '.join(parts)} {whose}\n" if parts else ""


def status_text(status: Status, subject: Subject = ARMS) -> str:
    """Return a status and what it means."""
    running = status is Status.RUNNING
    return f"{status}: {f'more {subject.samples} are needed' if running else status.meaning}"


def threshold_lines(result: Result, subject: Subject = ARMS) -> list[str]:
    """Return a line for each threshold, or two."""
    style = number_style(result.question, subject)
    lines = []
    for side, (estimate, lower, upper) in result.thresholds.items():
        what, made_of = f"{side} threshold", result.question.threshold_text(side)
        if all(map(math.isfinite, (estimate, lower, upper))):
            ends = f"[{_number(lower, style)}, {_number(upper, style)}]"
            known = f"{_number(estimate, style)}, within {ends}"
        elif result.pulls or result.imported:
            known = "not known yet"
        else:
            continue
        short = len(made_of) <= MOST_OF_A_LINE
        lines += [f"{what}, {made_of}: {known}"] if short else [f"{what}: {known}", f"  {made_of}"]
    return lines


def cost(result: Result) -> str:
    """Return how many samples there are: made or imported, not used, and beyond the budget."""
    parts = [f"{result.pulls + result.imported:,}{imported_text(result)}"]
    if result.unused:
        parts.append(f"{result.unused:,} not used{'' if result.status.final else ' yet'}")
    if result.beyond:
        parts.append(f"{result.beyond:,} late ones beyond the budget, not used")
    return ", and ".join(parts)


def imported_text(result: Result) -> str:
    """Return how many of the samples were there before, to be put after their number."""
    if not result.imported:
        return ""
    return f", {result.imported:,} of them imported" if result.pulls else ", all of them imported"


def still_needed(result: Result, subject: Subject = ARMS) -> str:
    """Return about how many more samples would decide the rest, as a line."""
    if not result.question.can_have_outliers:
        k, n = result.question.k, result.question.n
        return (
            f"among {n:,} {subject.things} none can be more than {k:g} sd out, only just as far:\n"
            "  this may not end; a smaller k would end it\n"
        )
    if result.all_alike:
        return f"all {subject.things} look alike, so this would not end; a margin would end it\n"
    needed = in_all_needed(result)
    if needed is None or result.pulls_needed is None:
        return ""
    most = float(result.pulls_needed.max())
    return (
        f"still needed: {rough(needed, subject.samples)}\n"
        f"  about {about(most)} of one {subject.thing} at most\n"
    )


def in_all_needed(result: Result) -> float | None:
    """Return about how many more samples would decide the rest, None where nobody can tell."""
    needed = math.inf if result.pulls_needed is None else float(result.pulls_needed.sum())
    return needed if math.isfinite(needed) else None


def rough(needed: float, samples: str) -> str:
    """Return a guess of the samples to come, and how rough it is.

    Examples
    --------
    >>> rough(387.0, "runs")
    'about 390 runs, perhaps 130 to 1,200 (a rough guess)'
    """
    low, high = about(needed / ROUGH), about(needed * ROUGH)
    return f"about {about(needed)} {samples}, perhaps {low} to {high} (a rough guess)"


def comparison(result: Result) -> str:
    """Return a line about sampling all equally, where there is something to compare with."""
    equal, samples = result.equal_sampling, result.pulls + result.imported
    if equal is None or not samples:
        return ""
    text = f"sampling all equally at this guarantee (RR): about {about(equal)}"
    if equal < 2 * samples:
        return f"{text}\n"
    times = f"{about(equal / samples)} times as many"
    return f"{text}, {times}\n" if len(text) + len(times) + 2 <= WIDTH else f"{text},\n  {times}\n"


class _Arms:
    """Tables of arms in the words of their subject."""

    def __init__(self, question: Question, subject: Subject) -> None:
        self.subject = subject
        self.style = number_style(question, subject)

    def table(
        self, rows: list[dict[str, Any]], columns: tuple[str, ...], most: int = MOST_SHOWN
    ) -> str:
        """Return the first rows as lines, with these columns beside the usual ones."""
        subject = self.subject
        first, *more = (HEADS.get(column, column) for column in columns)
        shown = [subject.label, subject.mean, "interval", first, subject.samples, *more]
        body = [self._cells(row, columns) for row in rows[:most]]
        right = {subject.mean, subject.samples, "odds", "needed"} & set(shown)
        text = table(shown, body, right=right, wrap=subject.label)
        hidden = len(rows) - most
        return text + (f"... and {counted(hidden, 'other')}\n" if hidden > 0 else "")

    def _cells(self, row: dict[str, Any], columns: tuple[str, ...]) -> list[Any]:
        mean, interval, samples = figures(row, self.style)
        first, *more = (cell(row, column, self.subject) for column in columns)
        return [row["label"], mean, interval, first, samples, *more]


def figures(row: dict[str, Any], style: str) -> tuple[str, str, str]:
    """Return an arm's mean, interval and number of samples."""
    lower, upper = _number(row["lower"], style), _number(row["upper"], style)
    samples = f"{row['pulls'] + row['imported']:,}"
    return _number(row["mean"], style), f"[{lower}, {upper}]", samples


def cell(row: dict[str, Any], column: str, subject: Subject = ARMS) -> str:
    """Return what a column says of an arm: its odds, guess, need of samples or decision."""
    if column == "odds":
        return _odds(row["odds"])
    if column == "needed":
        needed = row["pulls_needed"]
        return "?" if needed is None or not math.isfinite(needed) else about(needed)
    if column == "guess":
        if row["guess"] in (None, "undecided") or row["doubt"] is None:
            return "?"
        named = "normal" if row["guess"] == "normal" else subject.guess
        doubt = "<1%" if row["doubt"] < 0.01 else f"{row['doubt']:.0%}"
        return f"{named} ({doubt})"
    return str(row["decision"])


def innocence(row: dict[str, Any]) -> float:
    """Return what undecided arms are sorted by: about the probability that they are normal."""
    if row["guess"] is None or row["doubt"] is None:
        return 0.5
    return float(1.0 - row["doubt"] if row["guess"] == "normal" else row["doubt"])


def number_style(question: Question, subject: Subject = ARMS) -> str:
    """Return how to print a reward: to a ten thousandth of the rewards' range, or in percent."""
    if subject.in_percent(question):
        return ".1%"
    a, b = question.bounds
    digits = 4 - math.floor(math.log10(b - a))
    return f"z.{max(digits, 0)}f" if -3 <= digits <= 9 else ".5g"


def _number(value: float | None, style: str) -> str:
    return "?" if value is None else f"{value:{style}}"


def _odds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1e6:
        return f"{value:,.0f}:1"
    return f"{value:.0e}:1".replace("e+", "e") if value < LARGEST_ODDS else "over 1e100:1"
