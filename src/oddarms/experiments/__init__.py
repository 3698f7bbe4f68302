"""Comparisons of algorithms: declared as a grid, run in parallel, resumed when interrupted."""

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
    "Setting",
    "Summary",
    "UniformMeans",
    "run",
]
