"""New random numbers for every sample: `random`, `numpy.random` and Hypothesis.

A test whose random numbers are the same in every run cannot fail by chance, and samples of it are
not independent. Each sample has a name (which search, which test, which place in the test's
sequence), and its seed is a hash of it, so a run with the same `--oddarms-seed` makes the same
choices.
"""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import pytest


def seed_of(name: str) -> int:
    """Return 64 bits that a name decides."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="backslashreplace")).digest()[:8])


def reseed(seed: int) -> None:
    """Set the state of all global generators that this process has loaded."""
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed % 2**32)
    core: Any = sys.modules.get("hypothesis.core")
    if core is not None:
        # also keeps it from replaying failures of earlier samples from its database
        core.global_force_seed = seed


class Kept:
    """The global generators as they are now, to leave them so in the end."""

    def __init__(self) -> None:
        self._random = random.getstate()
        self._core: Any = sys.modules.get("hypothesis.core")
        self._forced = getattr(self._core, "global_force_seed", None)

    def restore(self) -> None:
        """Put back what was there."""
        random.setstate(self._random)
        core: Any = self._core or sys.modules.get("hypothesis.core")
        if core is not None:
            core.global_force_seed = self._forced


def free_hypothesis(item: pytest.Item) -> None:
    """Let a Hypothesis test draw other examples in every run, on another instance of its class.

    Its profile for CI makes all runs alike (``derandomize``). A seed that the test's author gave
    it stays, as everything that a test does by itself.
    """
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is None:
        return
    test = getattr(item, "obj", None)
    function: Any = getattr(test, "__func__", test)
    present = getattr(function, "_hypothesis_internal_use_settings", None)
    if present is not None:
        function._hypothesis_internal_use_settings = _freed(hypothesis, present)
    machine: Any = getattr(item, "cls", None)
    if isinstance(getattr(machine, "settings", None), hypothesis.settings):
        machine.settings = _freed(hypothesis, machine.settings)


def _freed(hypothesis: Any, settings: Any) -> Any:
    check = hypothesis.HealthCheck.differing_executors
    return hypothesis.settings(
        settings,
        derandomize=False,
        database=None,
        suppress_health_check={check, *settings.suppress_health_check},
    )


def leave_seeds_alone(config: pytest.Config) -> None:
    """Keep pytest-randomly from giving every run the same random numbers."""
    if hasattr(config.option, "randomly_reset_seed"):
        config.option.randomly_reset_seed = False
