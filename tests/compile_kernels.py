"""Compiles all kernels for the tests, which takes a minute; make runs it beside the checks."""

from __future__ import annotations

import os

from helpers import KERNELS


def main() -> None:
    os.environ.setdefault("ODDARMS_CACHE", str(KERNELS))
    from oddarms import simulate
    from oddarms.simulation._task import COMPILED

    for algorithm in COMPILED:
        simulate([0.1, 0.2, 0.9], k=1.0, delta=0.3, algorithm=algorithm, runs=1, rng=0)


if __name__ == "__main__":
    main()
