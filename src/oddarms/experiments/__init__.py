"""Comparisons of algorithms, and the experiments of the ADE paper."""

from oddarms.experiments._crowd import Crowd, read_crowd
from oddarms.experiments._grid import Cell, Contender, Grid, Setting, UniformMeans
from oddarms.experiments._outcomes import Outcome, Outcomes, Summary
from oddarms.experiments._reproduce import Reproduction, reproduce
from oddarms.experiments._run import GridProgress, run

__all__ = [
    "Cell",
    "Contender",
    "Crowd",
    "Grid",
    "GridProgress",
    "Outcome",
    "Outcomes",
    "Reproduction",
    "Setting",
    "Summary",
    "UniformMeans",
    "read_crowd",
    "reproduce",
    "run",
]
