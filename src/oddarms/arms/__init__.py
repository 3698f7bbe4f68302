"""Sources of rewards: simulated families, recorded tables, functions."""

from oddarms.arms._base import FiniteSource, SeededSource, Source, TotalsSource
from oddarms.arms._callables import BatchFunction, Callables, CalledSource, Function
from oddarms.arms._command import Command
from oddarms.arms._crowd import crowd_error_rates, simulated_crowd
from oddarms.arms._exit_codes import codes_of
from oddarms.arms._running import kill_commands
from oddarms.arms._simulated import (
    Bernoulli,
    Beta,
    Gaussian,
    ScipyArms,
    SimulatedArms,
    Uniform,
    truncated_normal,
)
from oddarms.arms._table import Table
from oddarms.arms._templates import check_uses_label
from oddarms.arms._transformed import transformed

__all__ = [
    "BatchFunction",
    "Bernoulli",
    "Beta",
    "Callables",
    "CalledSource",
    "Command",
    "FiniteSource",
    "Function",
    "Gaussian",
    "ScipyArms",
    "SeededSource",
    "SimulatedArms",
    "Source",
    "Table",
    "TotalsSource",
    "Uniform",
    "check_uses_label",
    "codes_of",
    "crowd_error_rates",
    "kill_commands",
    "simulated_crowd",
    "transformed",
    "truncated_normal",
]
