"""What the theorems bound the pulls by, on the instances that SPADE meets."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from benchmarks._compare import SPADE, repeated
from oddarms.experiments import Grid, Setting
from oddarms.theory import ade_pulls_bound, rr_pulls_bound, spade_pulls_bound

BOUNDS = {"SPADE": spade_pulls_bound, "ADE": ade_pulls_bound, "RR": rr_pulls_bound}


def bounds_of(families: Sequence[Setting], runs: int, *, seed: int) -> list[dict[str, Any]]:
    """Return the mean of each theorem's bound on the pulls, by family."""
    rows: list[dict[str, Any]] = []
    for family in families:
        cells = list(Grid([repeated(family, runs)], [SPADE]).cells(seed))
        if not family.draws:  # one instance, run many times
            cells = cells[:1]
        means = {
            name: fmean(bound(cell.arms.means, k=family.k, delta=family.delta) for cell in cells)
            for name, bound in BOUNDS.items()
        }
        rows.append({"family": family.name, "n": cells[0].arms.means.size, **means})
    return rows
