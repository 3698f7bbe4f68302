"""Replay a study's log in memory and hold what is stored against it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from oddarms.errors import OddarmsError, StoreFailed
from oddarms.search import Search
from oddarms.studies import _records as records
from oddarms.studies._replay import new_search, replay

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._study import Study


@dataclass
class Verification:
    """What a replay of the log showed; `problems` is empty if all is well."""

    results: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if the stored state is that of the log."""
        return not self.problems


def verify(study: Study) -> Verification:
    """Replay the log from its first result and compare: saved state, arms' rows, tickets.

    Takes time in proportion to the results; others may go on working. Of results recorded at this
    moment some may be seen and others with lower numbers not, but none that a saved state has.
    """
    found = Verification()
    with study._database.view() as connection:
        try:
            _replay(study, found, connection)
        except StoreFailed:
            raise
        except (OddarmsError, IndexError) as error:  # what the log or the saved state has is wrong
            found.problems.append(f"the replay ends with: {str(error).rstrip('.')}")
        found.problems += records.broken_rules(connection, study._number, study._asked.bounds)
    return found


def _replay(study: Study, found: Verification, connection: sa.Connection) -> None:
    search = new_search(study._asked, study.seed)
    saved, taken = records.snapshot_position(connection, study._number)
    for rows in records.result_rows(connection, study._number, after=0):
        earlier = [row for row in rows if row.number <= saved]
        if earlier:
            replay(search, earlier)
            if earlier[-1].number == saved:
                _compare_snapshot(study, search, taken, found, connection)
        replay(search, [row for row in rows if row.number > saved])
    found.results = search.taken
    current, position = study._loaded(connection)
    for rows in records.result_rows(connection, study._number, after=position):
        replay(current, rows)
    if current.to_bytes() != search.to_bytes():
        found.problems.append("the saved state and the results after it do not give the replay")


def _compare_snapshot(
    study: Study, search: Search, taken: int, found: Verification, connection: sa.Connection
) -> None:
    if search.taken != taken:
        found.problems.append(
            f"the saved state says that it has {taken} results but the log has {search.taken}"
        )
    if study._loaded(connection)[0].to_bytes() != search.to_bytes():
        found.problems.append("the saved state is not that of the log up to the same result")
    result = search.result()
    rows = records.arm_states(connection, study._number)
    wrong = [
        arm
        for arm, (pulls, mean, decision) in enumerate(rows)
        if pulls != result.pulls_per_arm[arm]
        or decision != result.decisions[arm]
        or not np.isclose(np.nan if mean is None else mean, result.means[arm], 0, 0, equal_nan=True)
    ]
    if wrong or len(rows) != study._asked.n:
        found.problems.append(f"the rows of {len(wrong)} arms are not those of the log")
