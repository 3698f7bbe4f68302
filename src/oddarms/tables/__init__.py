"""Tables that people have and want: every file of rewards, responses or labels, and CSV."""

from oddarms.tables._arms import read_arms
from oddarms.tables._imports import Imports, read_imports
from oddarms.tables._labels import read_labels
from oddarms.tables._recorded import RecordedArms
from oddarms.tables._results import read_results
from oddarms.tables._rewards import read_rewards
from oddarms.tables._text import csv_text, neutralised
from oddarms.tables._values import bounds_of, number_of, ticket_of

__all__ = [
    "Imports",
    "RecordedArms",
    "bounds_of",
    "csv_text",
    "neutralised",
    "number_of",
    "read_arms",
    "read_imports",
    "read_labels",
    "read_results",
    "read_rewards",
    "ticket_of",
]
