"""Tries an installed oddarms that has none of its extras: each must be missing in one sentence.

It runs in an empty environment, as ``python tools/smoke.py``, and imports nothing but oddarms.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import oddarms
from oddarms.errors import MissingExtra, OddarmsError


def _result() -> Any:
    workers = oddarms.arms.Bernoulli([0.1, 0.2, 0.1, 0.95, 0.15], labels=list("abcde"))
    result = oddarms.find(workers, k=1.5, delta=0.05, rng=0)
    if result.outliers != ["d"]:
        raise SystemExit(f"the outliers must be ['d'] but are {result.outliers}.")
    return result


def _command_line() -> None:
    """Say what the command line says, as an error."""
    from oddarms.cli import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main(["demo"])
    if code != 2:
        raise SystemExit(f"the exit code must be 2 but is {code}.")
    raise MissingExtra(said.getvalue().removeprefix("error: ").strip())


def _parallel() -> Any:
    from oddarms.executors import unordered

    return list(unordered(abs, [-1], jobs=2))


def _ray() -> Any:
    from oddarms.executors import RayExecutor

    return RayExecutor()


def _read(file: str) -> Any:
    from oddarms.tables import read_rewards

    if file.endswith(".parquet"):
        Path(file).write_bytes(b"PAR1" + bytes(8) + b"PAR1")
    else:  # the reader looks into the file first
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("xl/workbook.xml", "<workbook/>")
    return read_rewards(file)


def _plugin() -> Any:
    import oddarms.pytest_plugin

    return oddarms.pytest_plugin


def _server() -> Any:
    import oddarms.server

    return oddarms.server


def _remote() -> Any:
    os.environ.setdefault("ODDARMS_TOKEN", "token")
    return oddarms.load_study("s", storage="http://127.0.0.1:8321")


NEEDS: dict[str, Callable[[], Any]] = {
    "cli": _command_line,
    "simulate": lambda: oddarms.simulate([0.1, 0.9, 0.1], k=1, compiled=True, runs=1),
    "plot": lambda: oddarms.plotting.plot_intervals(_result()),
    "frame": lambda: _result().to_frame(),
    "study": lambda: oddarms.create_study("s", ["a", "b"], storage="study.db"),
    "postgresql": lambda: oddarms.load_study("s", storage="postgresql://localhost/s"),
    "parquet": lambda: _read("rewards.parquet"),
    "parallel": _parallel,
    "ray": _ray,
    "pytest": _plugin,
    "server": _server,
    "remote": _remote,
    "excel": lambda: _read("rewards.xlsx"),
}
"""What needs each extra."""


def message_without(extra: str) -> str:
    """Return what is said where an extra is missing, or raise if that is not what it should be."""
    try:
        NEEDS[extra]()
    except MissingExtra as error:
        said = str(error)
    except OddarmsError as error:
        raise SystemExit(f"{extra} must be missing but the error is: {error}") from error
    else:
        raise SystemExit(f"{extra} must be missing but nothing was.")
    if not said.endswith(f" needs an optional package: pip install 'oddarms[{extra}]'."):
        raise SystemExit(f"{extra} must be named with its command but the message is: {said}")
    return said


def named() -> list[str]:
    """Return the extras that some message of the package names."""
    folder = Path(oddarms.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    return [extra for extra in NEEDS if f'MissingExtra.of("{extra}"' in text or extra == "cli"]


def main(extras: list[str]) -> None:
    """Print what is said without each extra; of all, where none are given."""
    for extra in extras or named():
        print(message_without(extra))


if __name__ == "__main__":
    main(sys.argv[1:])
