"""Recorded data: rewards and totals by arm from frames and files, test reports, labels, CSV."""

from oddarms.tables._crowd import RecordedArms, read_arms
from oddarms.tables._files import csv_text, neutralised, read_labels, read_results
from oddarms.tables._junit import Reruns, RunCount, RunHistory, read_junit
from oddarms.tables._reading import Rewards, Totals, read_rewards, read_totals
from oddarms.tables._values import Missing, Recorded, Transform

__all__ = [
    "Missing",
    "Recorded",
    "RecordedArms",
    "Reruns",
    "Rewards",
    "RunCount",
    "RunHistory",
    "Totals",
    "Transform",
    "csv_text",
    "neutralised",
    "read_arms",
    "read_junit",
    "read_labels",
    "read_results",
    "read_rewards",
    "read_totals",
]
