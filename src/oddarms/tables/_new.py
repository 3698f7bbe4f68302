from __future__ import annotations
from typing import Any, NamedTuple
import numpy as np
from oddarms.tables._frames import recorded_rewards


class Rewards(NamedTuple):
    labels: list[Any]
    arms: Any
    rewards: Any


def read_rewards(
    data: Any,
    *,
    arm: Any = None,
    reward: Any = None,
    labels: Any = None,
    missing: Any = "stop",
    bounds: Any = (0, 1),
    worst: float = 1.0,
) -> Rewards:
    if isinstance(data, Rewards):
        return data
    found = (
        recorded_rewards(
            data,
            arm=arm,
            reward=reward,
            labels=labels,
            missing=missing,
            worst=worst,
            rng=np.random.default_rng(0),
        )
        if not isinstance(data, dict)
        else {k: np.atleast_1d(np.asarray(v, dtype=float)) for k, v in data.items()}
    )
    names = list(found)
    arrays = [np.asarray(v, dtype=float) for v in found.values()]
    arms = np.repeat(np.arange(len(names)), [a.size for a in arrays])
    return Rewards(names, arms, np.concatenate(arrays) if arrays else np.empty(0))
