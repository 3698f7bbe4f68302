"""Tables that people have and want: every file of rewards, responses or labels, and CSV."""

from oddarms.tables._arms import read_arms
from oddarms.tables._frames import (
    History,
    Missing,
    Recorded,
    is_recorded,
    recorded_rewards,
    reward_array,
    within,
)
from oddarms.tables._imports import Imports, read_imports
from oddarms.tables._junit import Reruns, RunCount, RunHistory, read_junit
from oddarms.tables._labels import read_labels, read_labels_of
from oddarms.tables._recorded import RecordedArms
from oddarms.tables._results import read_results
from oddarms.tables._rewards import read_counts, read_rewards
from oddarms.tables._text import csv_text, neutralised
from oddarms.tables._transforms import Transform
from oddarms.tables._values import bounds_of, number_of, ticket_of

__all__ = [
    "History",
    "Imports",
    "Missing",
    "Recorded",
    "RecordedArms",
    "Reruns",
    "RunCount",
    "RunHistory",
    "Transform",
    "bounds_of",
    "csv_text",
    "is_recorded",
    "neutralised",
    "number_of",
    "read_arms",
    "read_counts",
    "read_imports",
    "read_junit",
    "read_labels",
    "read_labels_of",
    "read_results",
    "read_rewards",
    "recorded_rewards",
    "reward_array",
    "ticket_of",
    "within",
]
