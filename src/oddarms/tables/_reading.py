"""Rewards, or sufficient statistics, by arm from recorded data of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import (
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    brief,
    check_bounds,
    check_whole,
)
from oddarms.tables._files import MAX_LINE, LabelColumns, Table
from oddarms.tables._frames import Recorded, by_label, table_of
from oddarms.tables._values import (
    Bounds,
    Missing,
    Numbers,
    Transform,
    check_missing,
    factorized,
    shown,
)

Columns = str | Sequence[str]
BETWEEN = " / "
"""Joins the labels of several columns."""
MAX_EXPANDED = 20_000_000
"""Trials that become single rewards."""
MAX_COUNT = 2**53
"""Of one arm's rows; each smaller whole number is a float."""


class Rewards(NamedTuple):
    """Single rewards in their order.

    Attributes
    ----------
    labels
        The arms, in the order of first appearance.
    arms
        The arm of each reward, as its place in `labels`.
    rewards
        The rewards, within the bounds.
    """

    labels: list[Label]
    arms: IntArray
    rewards: FloatArray

    def by_label(self) -> dict[Label, FloatArray]:
        """Return each arm's rewards, in their order."""
        ends = np.cumsum(np.bincount(self.arms, minlength=len(self.labels)))[:-1]
        parts = np.split(self.rewards[np.argsort(self.arms, kind="stable")], ends)
        return dict(zip(self.labels, parts, strict=False))


class Totals(NamedTuple):
    """What rows say of each arm: how many there are, their sum and the sum of their squares.

    Attributes
    ----------
    labels
        The arms, in the order of first appearance.
    counts, sums, squares
        In the units of the rewards.
    half
        The same for a random half of the rows, each of which is in it with probability 1/2; None
        if only totals are known and rewards are not all 0 or 1.
    left_out
        Arms with fewer than `min_rows` rows, and how many they have.
    missing
        Rows without a reward, which were skipped or counted as the worst one.
    """

    labels: list[Label]
    counts: IntArray
    sums: FloatArray
    squares: FloatArray
    half: Totals | None
    left_out: dict[Label, int]
    missing: int = 0


def read_rewards(
    data: Recorded,
    *,
    arm: Columns | None = None,
    reward: str | None = None,
    trials: str | None = None,
    events: str | None = None,
    labels: Iterable[Label] | None = None,
    missing: Missing = "stop",
    transform: Transform | None = None,
    bounds: Bounds = UNIT,
    worst: float = 1.0,
    encoding: str | None = None,
) -> Rewards:
    """Return single rewards by arm, such as the history of a live search.

    Parameters
    ----------
    data
        A mapping from label to rewards; a frame of pandas, polars or pyarrow, or a relation of
        DuckDB, with a row per reward; a Series of pandas with the labels as its index; an array
        with a row for each of the `labels`; or a file: CSV (also separated by semicolons, tabs or
        bars, also gzipped, "-" for stdin), Excel or Parquet.
    arm
        The column of labels; by default ``arm`` or, without one, the index of a pandas frame. Of
        several columns the labels are joined, as in ``"AA / JFK"``. Labels of files are texts.
    reward
        The column of rewards, by default ``reward``: numbers, yes/no or true/false. Where columns
        are not separated by commas numbers may have decimal commas.
    trials, events
        Instead of `reward`, columns with an arm's number of rewards of 0 and 1 and with that of
        ones; rows of one arm are added up. By default ``trials`` and ``events`` where there is no
        column of rewards. In the result the ones come first.
    labels
        Of the rows of an array.
    missing
        What a missing reward means (None, NaN, an empty cell, NA, null): "stop" refuses it, "skip"
        leaves it out, which is sound only if being missing has nothing to do with the reward, and
        "worst" counts it as `worst`.
    transform
        Clips rewards, or compares them with a value, before they are checked.
    bounds
        The smallest and the largest reward possible.
    worst
        The most abnormal reward.
    encoding
        Of a CSV, such as "latin-1"; by default UTF-8, or what its byte order mark says.

    Raises
    ------
    InvalidParameter
        If a column is missing or a value is not a reward; the message has the row.
    MissingExtra
        If pandas, narwhals, pyarrow or openpyxl is needed and not installed.

    Examples
    --------
    >>> found = read_rewards([[0, 1, None], [1, 1, 0]], labels=["a", "b"], missing="skip")
    >>> found.labels, found.arms.tolist(), found.rewards.tolist()
    (['a', 'b'], [0, 0, 1, 1, 1], [0.0, 1.0, 1.0, 1.0, 0.0])
    """
    asked = {"arm": arm, "reward": reward, "trials": trials, "events": events}
    rows = _Rows(missing, transform, bounds, worst)
    arms, rewards = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for block in rows.read(data, asked, labels, encoding):
        if isinstance(block, _Sums):
            block = block.expanded()
        arms.append(block.arms)
        rewards.append(block.rewards)
    return Rewards(rows.labels, np.concatenate(arms), np.concatenate(rewards))


def read_totals(
    data: Recorded,
    *,
    arm: Columns | None = None,
    reward: str | None = None,
    trials: str | None = None,
    events: str | None = None,
    count: str | None = None,
    total: str | None = None,
    squares: str | None = None,
    labels: Iterable[Label] | None = None,
    missing: Missing = "stop",
    transform: Transform | None = None,
    bounds: Bounds = UNIT,
    worst: float = 1.0,
    encoding: str | None = None,
    min_rows: int = 1,
    rng: int = 0,
) -> Totals:
    """Return the number, the sum and the sum of squares of each arm's rewards.

    Rows of files stream through. The result does not depend on how many are read at a time.

    Parameters
    ----------
    data, arm, reward, trials, events, labels, missing, transform, bounds, worst, encoding
        As for `read_rewards`. Counts may be of any size.
    count, total, squares
        Instead of `reward`, columns with the number of an arm's rewards, their sum and the sum of
        their squares; rows of one arm are added up.
    min_rows
        Arms with fewer rows are left out.
    rng
        Decides which rows are in the random half.

    Examples
    --------
    >>> found = read_totals({"a": [0, 1, 1], "b": [0.5, 0.5]})
    >>> found.counts.tolist(), found.sums.tolist(), found.squares.tolist()
    ([3, 2], [2.0, 1.0], [2.0, 0.5])
    """
    check_whole("min_rows", min_rows, least=0)
    asked = {"arm": arm, "reward": reward, "trials": trials, "events": events}
    asked |= {"count": count, "total": total, "squares": squares}
    rows = _Rows(missing, transform, bounds, worst)
    sums = _Accumulated(rng)
    for block in rows.read(data, asked, labels, encoding):
        sums.add(block, len(rows.labels))
    return sums.totals(rows.labels, min_rows, rows.missing)


# Blocks of rows


class _Single(NamedTuple):
    """Some single rewards."""

    arms: IntArray
    rewards: FloatArray


class _Sums(NamedTuple):
    """Some rows with totals; `binary` if they are of rewards of 0 and 1."""

    arms: IntArray
    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    binary: bool

    def expanded(self) -> _Single:
        """Return counted rewards of 0 and 1 one by one."""
        trials = float(self.counts.sum())
        if trials > MAX_EXPANDED:
            raise InvalidParameter(
                f"trials must be at most {MAX_EXPANDED:,} where they become single rewards but are"
                f" {trials:,.0f}: oddarms.analyze takes any number."
            )
        ones = self.sums.astype(np.int64)
        both = np.stack([ones, self.counts.astype(np.int64) - ones], axis=1).ravel()
        arms = np.repeat(np.repeat(self.arms, 2), both)
        return _Single(arms, np.repeat(np.tile([1.0, 0.0], ones.size), both))


class _Accumulated:
    """Adds up blocks, row after row, so that the size of blocks does not matter.

    What is at 2 i belongs to arm i, and at 2 i + 1 what is in the random half.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._counts = np.zeros(0, dtype=np.int64)
        self._sums, self._squares = np.zeros(0), np.zeros(0)
        self._totals_only, self._binary = False, True

    def add(self, block: _Single | _Sums, n: int) -> None:
        """Add a block; there are n arms by now."""
        more = max(0, 2 * n - self._counts.size)
        self._counts = np.append(self._counts, np.zeros(more, dtype=np.int64))
        self._sums, self._squares = (
            np.append(array, np.zeros(more)) for array in (self._sums, self._squares)
        )
        if isinstance(block, _Single):
            where = 2 * block.arms + (self._rng.random(block.arms.size) < 0.5)
            np.add.at(self._counts, where, 1)
            np.add.at(self._sums, where, block.rewards)
            np.add.at(self._squares, where, block.rewards**2)
        else:
            self._totals_only, self._binary = True, self._binary and block.binary
            np.add.at(self._counts, 2 * block.arms, block.counts.astype(np.int64))
            np.add.at(self._sums, 2 * block.arms, block.sums)
            np.add.at(self._squares, 2 * block.arms, block.squares)

    def totals(self, labels: list[Label], min_rows: int, missing: int) -> Totals:
        """Return the totals of all arms with enough rows."""
        counts = self._counts[0::2] + self._counts[1::2]
        kept = np.flatnonzero(counts >= min_rows)
        left_out = {labels[i]: int(counts[i]) for i in np.flatnonzero(counts < min_rows)}
        if not kept.size:
            raise InvalidParameter(
                f"data must have an arm with {min_rows:,} rows or more but has none: the largest of"
                f" its {len(labels):,} arms has {counts.max(initial=0):,}."
            )
        names = [labels[i] for i in kept] if left_out else list(labels)
        counts = counts[kept]
        sums = (self._sums[0::2] + self._sums[1::2])[kept]
        squares = (self._squares[0::2] + self._squares[1::2])[kept]
        half: Totals | None = None
        if not self._totals_only:
            halves = 2 * kept + 1
            parts = self._counts[halves], self._sums[halves], self._squares[halves]
            half = Totals(names, *parts, None, {})
        elif self._binary:
            ones: IntArray = self._rng.binomial(sums.astype(np.int64), 0.5)
            zeros: IntArray = self._rng.binomial(counts - sums.astype(np.int64), 0.5)
            half = Totals(names, ones + zeros, ones.astype(float), ones.astype(float), None, {})
        return Totals(names, counts, sums, squares, half, left_out, missing)


_KINDS = (("reward",), ("trials", "events"), ("count", "total", "squares"))
"""The columns that may have the values of a table."""
_WrongAt = Callable[[int, str], InvalidParameter]
_MISSING = (
    "missing='skip' leaves such rows out, which is sound only if being missing has nothing to do"
    " with the reward, and 'worst' counts them as the most abnormal reward"
)


class _Rows:
    """Reads recorded data block by block, and numbers the arms by first appearance."""

    def __init__(
        self, missing: Missing, transform: Transform | None, bounds: Bounds, worst: float
    ) -> None:
        self.labels: list[Label] = []
        self.missing = 0
        self._rule = check_missing(missing)
        self._transform = transform
        self._bounds = check_bounds(bounds)
        self._worst = worst
        self._index: dict[Label, int] = {}

    def read(
        self,
        data: Recorded,
        asked: dict[str, Any],
        labels: Iterable[Label] | None,
        encoding: str | None,
    ) -> Iterator[_Single | _Sums]:
        """Give the rows of recorded data; `asked` has the columns."""
        given = {word: name for word, name in asked.items() if name is not None}
        wanted = [name for names in given.values() for name in _listed(names)]
        if isinstance(data, Rewards):
            yield self._checked_by_label(data)
            return
        with table_of(data, wanted, encoding) as table:
            if table is not None:
                if labels is not None:
                    raise InvalidParameter("Leave labels out for a table: arm names its column.")
                yield from self._of_table(table, given, asked)
                return
        if given:
            raise InvalidParameter(
                f"{' and '.join(given)} must name columns of a table, but data is a"
                f" {type(data).__name__} without {' and '.join(map(repr, wanted))}."
            )
        yield self._checked_by_label(Rewards(*by_label(data, labels)))

    def _checked_by_label(self, data: Rewards) -> _Single:
        self.labels = list(data.labels)

        def wrong_at(i: int, rule: str) -> InvalidParameter:
            return InvalidParameter(f"arm {brief(data.labels[data.arms[i]])}: {rule}.")

        return self._checked(data.arms, data.rewards, "the reward", wrong_at)

    def _of_table(
        self, table: Table, given: dict[str, Any], asked: dict[str, Any]
    ) -> Iterator[_Single | _Sums]:
        arm = _arm_places(table, given.get("arm"))
        kind, values = _value_places(table, given, asked)
        self._check_kind(kind)
        columns = [Numbers(str(table.columns[i]), commas=table.commas) for i in values]
        first = 1
        for part in table.parts(arm, values):
            labels = _stripped(part.labels) if table.is_file else part.labels
            rows = np.arange(first, first + len(labels[0][0]))
            first += rows.size

            def wrong_at(i: int, rule: str) -> InvalidParameter:
                return InvalidParameter(f"{table.name}, row {rows[i]:,}: {rule}.")  # noqa: B023

            numbers = [c.of(v, wrong_at) for c, v in zip(columns, part.values, strict=True)]
            blank = _blank(labels, numbers) if table.is_file else None
            if blank is not None:
                rows, numbers = rows[~blank], [values[~blank] for values in numbers]
                labels = [(codes[~blank], texts) for codes, texts in labels]
            arms = self._arms(labels, wrong_at)
            if len(kind) == 1:
                yield self._checked(arms, numbers[0], columns[0].name, wrong_at)
            else:
                yield self._checked_sums(arms, numbers, kind, wrong_at)
        if not self.labels:
            raise InvalidParameter(f"{table.name} must have rows but has none.")

    def _check_kind(self, kind: tuple[str, ...]) -> None:
        a, b = self._bounds
        if len(kind) > 1 and self._transform is not None:
            raise InvalidParameter("clip and above need single rewards, but the table has totals.")
        if len(kind) == 2 and not a <= 0.0 < 1.0 <= b:
            raise InvalidParameter(
                f"trials and events count rewards of 0 and 1, but the bounds are [{a:g}, {b:g}]."
            )

    # Labels

    def _arms(self, labels: LabelColumns, wrong_at: _WrongAt) -> IntArray:
        """Return the arm of each row."""
        for codes, _ in labels:
            if codes.size and codes.min() < 0:
                row = int(np.argmin(codes))
                raise wrong_at(row, "every row must name an arm but the label is missing")
        codes, texts = labels[0] if len(labels) == 1 else _joined(labels)
        known = self._index.get
        arms = np.array([known(text, -1) for text in texts], dtype=np.int64)
        first = np.full(arms.size, -1, dtype=np.int64)
        first[codes[::-1]] = np.arange(codes.size)[::-1]  # of equal codes the last one stays
        new = np.flatnonzero((arms < 0) & (first >= 0))
        for code in new[np.argsort(first[new])].tolist():
            try:
                arms[code] = self._number(texts[code])
            except InvalidParameter as error:
                raise wrong_at(int(first[code]), str(error)) from None
        return arms[codes]

    def _number(self, label: Any) -> int:
        """Return the number of an arm, a new one if it was not seen before."""
        if isinstance(label, str) and not label:
            raise InvalidParameter("every row must name an arm but the label is empty")
        if isinstance(label, str) and len(label) > MAX_LINE:
            raise InvalidParameter(f"a label may have {MAX_LINE:,} characters but has more")
        number = self._index.setdefault(label, len(self._index))
        if number == len(self.labels):
            self.labels.append(label)
        return number

    # Values

    def _checked(
        self, arms: IntArray, rewards: FloatArray, name: str, wrong_at: _WrongAt
    ) -> _Single:
        """Return rewards within the bounds; missing ones are treated as the rule says."""
        gone = np.isnan(rewards)
        if gone.any():
            if self._rule == "stop":
                raise wrong_at(int(np.argmax(gone)), f"{name} is missing; {_MISSING}")
            self.missing += int(np.count_nonzero(gone))
        there = ~gone
        if self._transform is not None:
            rewards = rewards.copy()
            rewards[there] = self._transform.many(rewards[there])
        a, b = self._bounds
        outside = there & ~((rewards >= a) & (rewards <= b))
        if outside.any():
            row = int(np.argmax(outside))
            rule = f"{name} must lie within the bounds [{a:g}, {b:g}] but is {rewards[row]:g}"
            raise wrong_at(row, f"{rule}; for other rewards give bounds, clip or above")
        if self._rule == "skip":
            return _Single(arms[there], rewards[there])
        return _Single(arms, np.where(gone, self._worst, rewards))

    def _checked_sums(
        self, arms: IntArray, numbers: list[FloatArray], kind: tuple[str, ...], wrong_at: _WrongAt
    ) -> _Sums:
        """Return totals if there are rewards within the bounds that have them."""
        a, b = self._bounds
        counts, sums = numbers[:2]
        squares = numbers[-1]
        with np.errstate(all="ignore"):
            right = (counts % 1 == 0) & (counts >= 0) & (counts <= MAX_COUNT)
            if len(kind) == 2:
                binary = True
                right &= (sums % 1 == 0) & (sums >= 0) & (sums <= counts)
                rule = "events must be a whole number from 0 to trials"
            else:
                binary = a >= 0 and b <= 1 and bool(np.all((squares == sums) & (sums % 1 == 0)))
                right &= _possible(counts, sums, squares, self._bounds)
                rule = f"count, total and squares must be those of rewards within [{a:g}, {b:g}]"
        if not right.all():
            row = int(np.argmin(right))
            pairs = zip(kind, numbers, strict=True)
            got = ", ".join(f"{word} {number[row]:g}" for word, number in pairs)
            raise wrong_at(row, f"{rule} but there are {got}")
        return _Sums(arms, counts, sums, squares, binary)


def _possible(
    counts: FloatArray, sums: FloatArray, squares: FloatArray, bounds: Bounds
) -> BoolArray:
    """Return where rewards within the bounds have these totals, up to rounding."""
    a, b = bounds
    slack = 1e-9 * counts * max(abs(a), abs(b))
    within = (sums >= a * counts - slack) & (sums <= b * counts + slack)
    slack *= max(abs(a), abs(b))
    mean_square = np.divide(sums**2, counts, out=np.zeros_like(sums), where=counts > 0)
    # (x - a) (b - x) is not negative for a reward x
    possible: BoolArray = (
        within
        & (squares >= mean_square - slack)
        & (squares <= (a + b) * sums - a * b * counts + slack)
    )
    return possible


def _stripped(labels: LabelColumns) -> LabelColumns:
    """Return the labels of a file as texts without blanks around them."""
    return [
        (codes, [text.strip() if isinstance(text, str) else str(text) for text in texts])
        for codes, texts in labels
    ]


def _blank(labels: LabelColumns, numbers: list[FloatArray]) -> BoolArray | None:
    """Return which rows have nothing in the columns that are read; None if all have something."""
    if not all("" in texts or codes.min(initial=0) < 0 for codes, texts in labels):
        return None
    blank: BoolArray = np.all([np.isnan(values) for values in numbers], axis=0)
    for codes, texts in labels:
        empty = [code for code, text in enumerate(texts) if not text]
        blank &= np.isin(codes, [-1, *empty])
    return blank


def _joined(labels: LabelColumns) -> tuple[IntArray, list[Any]]:
    """Return the labels of several columns as one."""
    codes, texts = labels[0][0], list(map(str, labels[0][1]))
    for more, others in labels[1:]:
        codes, pairs = factorized(codes * len(others) + more)
        places = [divmod(pair, len(others)) for pair in pairs]
        texts = [f"{texts[i]}{BETWEEN}{others[j]}" for i, j in places]
    twice = next((text for text in texts if text.count(BETWEEN) >= len(labels)), None)
    if twice is not None:
        raise InvalidParameter(
            f"Labels of several columns are joined with {BETWEEN!r}, so none may have it in it, but"
            f" there is {shown(twice)}."
        )
    return codes, texts


# Columns


def _listed(names: Columns) -> list[str]:
    return [names] if isinstance(names, str) or not isinstance(names, Sequence) else list(names)


def _arm_places(table: Table, arm: Columns | None) -> list[int]:
    if arm is not None:
        names = _listed(arm)
        if not names:
            raise InvalidParameter("arm must name a column, or several, but is an empty list.")
        return [table.place("arm", name) for name in names]
    if table.places("arm"):
        return [table.place("arm", "arm")]
    if not table.index:
        raise InvalidParameter(
            f"{table.name}: arm must name the column of labels, one of {table.listed()}."
        )
    return list(table.index)


def _value_places(
    table: Table, given: dict[str, Any], asked: dict[str, Any]
) -> tuple[tuple[str, ...], list[int]]:
    """Return what kind of values a table has, and where."""
    known = [kind for kind in _KINDS if kind[0] in asked]
    chosen = [kind for kind in known if any(word in given for word in kind)]
    if len(chosen) > 1:
        raise InvalidParameter(
            f"Give one of {', or '.join(' and '.join(kind) for kind in known)}, but got"
            f" {' and '.join(word for word in given if word != 'arm')}."
        )
    if chosen:
        absent = [word for word in chosen[0] if word not in given]
        if absent:
            raise InvalidParameter(
                f"Give {' and '.join(chosen[0])} together: {absent[0]} is not given."
            )
    else:
        chosen = [kind for kind in known if all(map(table.places, kind))]
    if not chosen:
        raise InvalidParameter(
            f"{table.name}: reward must name the column of rewards, one of {table.listed()}."
        )
    kind = chosen[0]
    return kind, [table.place(word, given.get(word, word)) for word in kind]
