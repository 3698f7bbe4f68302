"""The words of answers: arms and samples, or tests and runs."""

from __future__ import annotations

from dataclasses import dataclass

from oddarms.problem import UNIT, Question


@dataclass(frozen=True)
class Subject:
    """What the items and their samples are called in an answer.

    `odd`, `odd_ones` and `guess` say that one is abnormal, that several are, and in a table that
    one seems so; `label` and `mean` are heads of columns; `rate` is a mean in a sentence. With
    `shares`, means of samples that are 0 or 1 are shown in percent; `counts` says what such a
    sample means.
    """

    thing: str = "arm"
    sample: str = "sample"
    odd: str = "an outlier"
    odd_ones: str = "outliers"
    guess: str = "outlier"
    label: str = "label"
    mean: str = "mean"
    rate: str = "mean"
    shares: bool = False
    counts: str = ""

    @property
    def things(self) -> str:
        """Several of them."""
        return f"{self.thing}s"

    @property
    def a_thing(self) -> str:
        """One of them.

        Examples
        --------
        >>> ARMS.a_thing, TESTS.a_thing
        ('an arm', 'a test')
        """
        return f"{'an' if self.thing[0] in 'aeiou' else 'a'} {self.thing}"

    @property
    def rates(self) -> str:
        """Several means."""
        return f"{self.rate}s"

    @property
    def samples(self) -> str:
        """Several of its samples."""
        return f"{self.sample}s"

    def are_odd(self, count: int, *, known: bool = False) -> str:
        """Return that one is abnormal, or that several are.

        Examples
        --------
        >>> Subject().are_odd(1), TESTS.are_odd(2, known=True)
        ('is an outlier', 'are known to be abnormally flaky')
        """
        to_be = " known to be" if known else ""
        return f"is{to_be} {self.odd}" if count == 1 else f"are{to_be} {self.odd_ones}"

    def in_percent(self, question: Question) -> bool:
        """Return whether the means of a question are shown in percent."""
        return self.shares and question.bounds == UNIT


ARMS = Subject()
"""Things of any kind."""
TESTS = Subject(
    thing="test",
    sample="run",
    odd="abnormally flaky",
    odd_ones="abnormally flaky",
    guess="flaky",
    label="test",
    mean="fails",
    rate="failure rate",
    shares=True,
    counts="1 if it failed, else 0",
)
"""Tests of a suite, whose samples are runs."""
