"""Replay a study's log in memory and hold what is stored against it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oddarms.errors import InvalidParameter, OddarmsError, StoreFailed
from oddarms.search import Search
from oddarms.search._alike import alike
from oddarms.studies import _result_rows as result_rows
from oddarms.studies import _revision_rows as revision_rows
from oddarms.studies import _study_rows as study_rows
from oddarms.studies._log import RevisionRow
from oddarms.studies._receipts import GENESIS, chained, origin, revised
from oddarms.studies._replay import in_order, new_search, replay, revise
from oddarms.studies._rules import broken_rules

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._study import StoredStudy


@dataclass
class Verification:
    """What a replay of the log showed.

    Attributes
    ----------
    results
        How many results the log has.
    chain
        A hash of all of them, and of all revisions, in their order, to be compared with that of a
        copy, or with one that was written down before. It stays the same as long as no result is
        added and the question is not changed.
    problems
        A sentence for all that is wrong; empty if all is well.
    """

    results: int = 0
    chain: str = GENESIS.hex()
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if the stored state is that of the log."""
        return not self.problems


def verified(study: StoredStudy) -> Verification:
    """Replay the log from its first result and hold everything stored against it."""
    found = Verification()
    with study._database.view() as connection:
        try:
            _replay(study, found, connection)
        except StoreFailed:
            raise
        except (OddarmsError, IndexError) as error:  # what the log or the saved state has is wrong
            found.problems.append(f"the replay ends with: {str(error).rstrip('.')}")
        found.problems += _changed_origin(study, connection)
        found.problems += broken_rules(connection, study._number, study._asked.bounds)
    return found


def _changed_origin(study: StoredStudy, connection: sa.Connection) -> list[str]:
    row = study_rows.find_study(connection, study.name)
    labels = study_rows.labels(connection, study._number)
    if row is not None and row.origin == origin(row.question, row.seed, row.secret, labels):
        return []
    return ["the question, seed, secret or labels are not those that the study was created with"]


def _replay(study: StoredStudy, found: Verification, connection: sa.Connection) -> None:
    search, chain, last = new_search(study._asked, study.seed), GENESIS, 0
    saved = study_rows.saved(connection, study._number)
    marks: list[RevisionRow | study_rows.Saved]
    marks = [*revision_rows.revision_rows(connection, study._number)]
    if saved.key is not None:
        marks.insert(saved.revised, saved)
    results = result_rows.result_rows(connection, study._number, after=0)
    for event in in_order(results, marks):
        if isinstance(event, study_rows.Saved):
            found.problems += _compared(study, event, search, chain, connection)
        elif isinstance(event, RevisionRow):
            revise(search, event)
            chain = revised(chain, event.number, event.position, event.question)
            if chain != event.chain:
                found.problems.append(
                    f"revision {event.number}, or what was recorded before it, is not what it was"
                )
        else:
            replay(search, event)
            chain = chained(chain, event)
            last = event[-1].number
    if saved.key is not None and last < saved.position:
        found.problems.append("the log ends before the last result of the saved state")
    found.results, found.chain = search.taken, chain.hex()


def _compared(
    study: StoredStudy,
    saved: study_rows.Saved,
    search: Search,
    chain: bytes,
    connection: sa.Connection,
) -> list[str]:
    """Hold a saved state against the replay up to the same result."""
    problems = []
    if search.taken != saved.taken:
        problems.append(
            f"the saved state says that it has {saved.taken} results but the log has"
            f" {search.taken} up to there"
        )
    if chain != saved.chain:
        problems.append("the results up to the saved state are not those that it was made of")
    assert saved.key is not None
    try:
        content = study_rows.saved_state(connection, study._number, saved.key)
        state = Search.from_bytes(search.question, content)
    except InvalidParameter as error:
        return [*problems, f"the saved state cannot be used: {str(error).rstrip('.')}"]
    if not alike(_essence(state), _essence(search)):
        problems.append("the saved state is not that of the log up to the same result")
    return problems


def _essence(search: Search) -> dict[str, object]:
    """Return what a saved state has, of a search as it comes back from one."""
    return vars(Search.from_bytes(search.question, search.to_bytes()))
