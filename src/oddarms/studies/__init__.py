"""Studies: ask and tell that lose nothing, in a file, in PostgreSQL or through a server."""

from oddarms.studies._api import (
    create_study,
    delete_study,
    list_studies,
    load_study,
    upgrade_storage,
    verify,
)
from oddarms.studies._base import Overview, Study
from oddarms.studies._log import Conflict, Revision, Told, Trial, Worker
from oddarms.studies._storage import StudyList, StudySummary
from oddarms.studies._verify import Verification

__all__ = [
    "Conflict",
    "Overview",
    "Revision",
    "Study",
    "StudyList",
    "StudySummary",
    "Told",
    "Trial",
    "Verification",
    "Worker",
    "create_study",
    "delete_study",
    "list_studies",
    "load_study",
    "upgrade_storage",
    "verify",
]
