"""Studies: ask and tell that lose nothing, on a file or on PostgreSQL."""

from oddarms.studies._api import (
    StudySummary,
    create_study,
    delete_study,
    list_studies,
    load_study,
    upgrade_storage,
)
from oddarms.studies._question import Question
from oddarms.studies._run import run
from oddarms.studies._study import Study
from oddarms.studies._tickets import Conflict, Status, Ticket, Tickets, Told, Trial
from oddarms.studies._verify import Verification, verify

__all__ = [
    "Conflict",
    "Question",
    "Status",
    "Study",
    "StudySummary",
    "Ticket",
    "Tickets",
    "Told",
    "Trial",
    "Verification",
    "create_study",
    "delete_study",
    "list_studies",
    "load_study",
    "run",
    "upgrade_storage",
    "verify",
]
