"""Whole runs on known means, in compiled code where numba is installed."""

from oddarms.simulation._simulate import Simulation, simulate

__all__ = ["Simulation", "simulate"]
