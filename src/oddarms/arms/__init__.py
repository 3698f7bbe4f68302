"""Sources of rewards: functions, commands, simulated arms, recorded rewards drawn again."""

from oddarms.arms._base import SeededSource, Source, TotalsSource
from oddarms.arms._callables import BatchFunction, Callables, CalledSource, Function, transformed
from oddarms.arms._command import Command, check_uses_label, codes_of
from oddarms.arms._simulated import (
    Bernoulli,
    Beta,
    Gaussian,
    Resampled,
    SimulatedArms,
    Uniform,
    check_endless,
    check_not_census,
    crowd_error_rates,
    simulated_crowd,
)

__all__ = [
    "BatchFunction",
    "Bernoulli",
    "Beta",
    "Callables",
    "CalledSource",
    "Command",
    "Function",
    "Gaussian",
    "Resampled",
    "SeededSource",
    "SimulatedArms",
    "Source",
    "TotalsSource",
    "Uniform",
    "check_endless",
    "check_not_census",
    "check_uses_label",
    "codes_of",
    "crowd_error_rates",
    "simulated_crowd",
    "transformed",
]
