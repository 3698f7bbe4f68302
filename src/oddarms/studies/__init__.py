"""Studies: ask and tell that lose nothing, on a file or on PostgreSQL."""

from oddarms.studies._api import (
    StudySummary,
    create_study,
    delete_study,
    list_studies,
    load_study,
    upgrade_storage,
)
from oddarms.studies._log import Conflict, Revision, Told, Trial
from oddarms.studies._study import Overview, Study
from oddarms.studies._verify import Verification, verify

__all__ = [
    "Conflict",
    "Overview",
    "Revision",
    "Study",
    "StudySummary",
    "Told",
    "Trial",
    "Verification",
    "create_study",
    "delete_study",
    "list_studies",
    "load_study",
    "upgrade_storage",
    "verify",
]
