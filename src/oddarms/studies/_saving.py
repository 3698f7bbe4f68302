"""Save a search's state beside its log, without keeping others waiting."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from oddarms.studies import _study_rows as study_rows

if TYPE_CHECKING:
    from oddarms.studies._database import Database
    from oddarms.studies._replay import State

PART_BYTES = 2**18
"""Each part is a transaction of its own, about as long as a tell."""


def save_state(database: Database, study: int, state: State) -> None:
    """Store a state in parts, let it be the saved one, and drop those before.

    Half a state is never used: the study points to it only once all parts are there. The log has
    everything, so one that cannot be saved costs time when the study is opened, and nothing else.
    """
    key = 1 + secrets.randbelow(2**62)
    starts = range(0, len(state.content), PART_BYTES)
    for part, start in enumerate(starts):
        with database.writing() as connection:
            content = state.content[start : start + PART_BYTES]
            study_rows.add_part(connection, study, key, part, content)
    with database.writing() as connection:
        study_rows.use_saved(connection, study, state, key, parts=len(starts))
    dropped = True
    while dropped:
        with database.writing() as connection:
            dropped = study_rows.drop_old_part(connection, study)
