"""Recorded data: rewards and totals by arm from frames and files, test reports, labels, CSV."""

from oddarms.tables._files import (
    Table,
    csv_text,
    neutralised,
    opened_table,
    read_labels,
    read_results,
)
from oddarms.tables._junit import Reruns, RunCount, RunHistory, read_junit
from oddarms.tables._reading import (
    Missing,
    Recorded,
    Rewards,
    Totals,
    read_rewards,
    read_totals,
)
from oddarms.tables._transform import Transform

__all__ = [
    "Missing",
    "Recorded",
    "Reruns",
    "Rewards",
    "RunCount",
    "RunHistory",
    "Table",
    "Totals",
    "Transform",
    "csv_text",
    "neutralised",
    "opened_table",
    "read_junit",
    "read_labels",
    "read_results",
    "read_rewards",
    "read_totals",
]
