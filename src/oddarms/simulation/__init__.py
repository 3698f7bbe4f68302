"""Whole runs on known means, in compiled code where numba is installed."""

from oddarms.simulation._simulate import Simulation, simulate
from oddarms.simulation._task import run_search

__all__ = ["Simulation", "run_search", "simulate"]
