"""Comparisons of algorithms, and the experiments of the ADE and ROAI papers."""

from oddarms.experiments._grid import Cell, Contender, Grid, Setting, UniformMeans
from oddarms.experiments._outcomes import Outcome, Outcomes, Summary
from oddarms.experiments._paper import Claim
from oddarms.experiments._reproduce import Reproduction, reproduce
from oddarms.experiments._roai import RoaiReproduction, reproduce_roai
from oddarms.experiments._run import AlgorithmProgress, GridProgress, run

__all__ = [
    "AlgorithmProgress",
    "Cell",
    "Claim",
    "Contender",
    "Grid",
    "GridProgress",
    "Outcome",
    "Outcomes",
    "Reproduction",
    "RoaiReproduction",
    "Setting",
    "Summary",
    "UniformMeans",
    "reproduce",
    "reproduce_roai",
    "run",
]
