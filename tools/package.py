"""Builds wheel and sdist twice, compares them, and tries the wheel in an empty environment.

``python -m tools.package dist`` is what ``make package`` runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
EPOCH = "1580601600"
"""The time that files in the archives have, where the environment names none."""
IN_WHEEL = {".py", ".typed", ".html", ".css", ".js", ".svg", ".png", ".txt", ".LICENSE"}
MOST_BYTES = 4_000_000


def built(folder: Path, *, sdist: bool = True) -> dict[str, Path]:
    """Build the archives into a folder; the wheel is made of the sdist, as on PyPI."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", EPOCH)}
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    words += [str(ROOT)] if sdist else ["--wheel", str(ROOT)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the build must succeed but did not:\n{done.stdout}{done.stderr}")
    return {path.name: path for path in sorted(folder.iterdir())}


def compare(first: dict[str, Path], second: dict[str, Path]) -> None:
    """Refuse two builds that differ in a byte."""
    digests = [{name: _sha256(path) for name, path in files.items()} for files in (first, second)]
    if digests[0] != digests[1]:
        raise SystemExit(f"two builds must be the same but are {digests[0]} and {digests[1]}.")


def check_wheel(path: Path) -> list[str]:
    """Return the files of a wheel; refuse what is superfluous or missing."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    package = [name for name in names if not PurePosixPath(name).parts[0].endswith(".dist-info")]
    wrong = [
        name
        for name in package
        if not name.startswith("oddarms/") or PurePosixPath(name).suffix not in IN_WHEEL
    ]
    missing = _expected() - set(package)
    if wrong or missing or path.stat().st_size > MOST_BYTES:
        raise SystemExit(
            f"the wheel must have the package and nothing else but has {wrong}, lacks"
            f" {sorted(missing)}, and is of {path.stat().st_size:,} bytes."
        )
    return package


def check_sdist(path: Path) -> None:
    """Refuse an sdist without the tests and what they need."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "Makefile", "LICENSE", "tests/conftest.py", "tools/smoke.py"}
    wanted |= {file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").glob("*.py")}
    if not wanted <= names:
        raise SystemExit(f"the sdist must have the tests but lacks {sorted(wanted - names)}.")


def try_in_empty_environment(wheel: Path) -> None:
    """Install the wheel alone, then with the command line, and use both."""
    with tempfile.TemporaryDirectory(prefix="oddarms-") as folder:
        python = Path(folder, "venv", "bin", "python")
        _run(folder, sys.executable, "-m", "venv", str(python.parents[1]))
        pip = (str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
        _run(folder, *pip, str(wheel))
        _run(folder, str(python), str(ROOT / "tools" / "smoke.py"))
        _run(folder, *pip, f"oddarms[cli,plot] @ {wheel.as_uri()}")
        _run(folder, str(python), "-m", "oddarms", "demo")


def main(folder: Path) -> None:
    """Build into a folder, which is emptied before, and say what was made."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="oddarms-") as again:
        files = built(folder)
        compare(files, built(Path(again)))
    wheel = next(path for name, path in files.items() if name.endswith(".whl"))
    check_wheel(wheel)
    check_sdist(next(path for name, path in files.items() if name.endswith(".tar.gz")))
    try_in_empty_environment(wheel.resolve())
    for name, path in files.items():
        print(f"{_sha256(path)}  {name}  {path.stat().st_size:,} bytes")


def _expected() -> set[str]:
    """Return the files of the package that git knows, as the wheel names them."""
    said = subprocess.run(
        ["git", "ls-files", "src/oddarms"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {name.removeprefix("src/") for name in said.stdout.split()} | {"oddarms/py.typed"}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(folder: str, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} must succeed but did not:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
