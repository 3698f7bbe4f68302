"""Comparisons of algorithms: declared as a grid, run in parallel, resumed when interrupted."""

from oddarms.experiments._data import RecordedArms, read_arms, read_rewards
from oddarms.experiments._grid import Contender, Grid, Setting
from oddarms.experiments._outcomes import Outcome, Outcomes, Summary
from oddarms.experiments._run import AlgorithmProgress, GridProgress, run
from oddarms.experiments._windows import UniformMeans

__all__ = [
    "AlgorithmProgress",
    "Contender",
    "Grid",
    "GridProgress",
    "Outcome",
    "Outcomes",
    "RecordedArms",
    "Setting",
    "Summary",
    "UniformMeans",
    "read_arms",
    "read_rewards",
    "run",
]
