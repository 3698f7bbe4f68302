"""Runs of other sessions: of this version of the code, which count, and of older ones.

A session's tests and the version of the code have one study in the storage, and every run that
counts is a row of its history. Sessions that run at the same time share it, and read what the
others have added. A session with other tests, such as one more, has another study; what any study
of the same version knows of a test counts. Studies of older versions tell what has changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from oddarms.errors import StorageFailed
from oddarms.finding import open_study
from oddarms.problem import Question
from oddarms.pytest_plugin import Settings
from oddarms.pytest_plugin._flakiness import Flakiness, Kind, Tally
from oddarms.studies import Study, list_studies, load_study, retried

RETRY_SECONDS = 20.0
"""How long to wait for a storage that is unavailable, at the beginning and at the end."""
MAX_STUDIES = 100
"""Of a storage that are looked at, the newest first."""
MAX_VERSIONS = 5
"""Older versions of the code that are read."""
MAX_VERSION = 80
GIT_SECONDS = 10.0
NO_OTHER = "(no other test)"
"""A study compares at least two things; so a single test has this one beside it."""
COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILD_SOURCEVERSION", "CIRCLE_SHA1")
"""Environment variables in which CI services have the commit."""


@dataclass
class Version:
    """What the storage has of an older version of the code: a tally for each test."""

    name: str
    begun: datetime
    tallies: dict[str, Tally] = field(default_factory=dict)


class Memory:
    """The runs of other sessions, and a place for those of this one.

    `older` has older versions, the newest first; `problem` says why runs could not be stored.
    """

    def __init__(self, nodeids: Sequence[str], settings: Settings) -> None:
        self.nodeids = list(nodeids)
        self.settings = settings
        self.older: list[Version] = []
        self.problem = ""
        self._key = secrets.token_urlsafe(12)
        self._pushes = 0
        self._pushed = [Tally() for _ in nodeids]
        self._batch: dict[int, Tally] = {}
        self._read_upto = 0
        self._log: dict[str, Tally] = {}  # of this session's study
        self._elsewhere: dict[str, Tally] = {}  # of other studies of this version
        self.study = retried(self._open, RETRY_SECONDS)
        retried(self._read_others, RETRY_SECONDS)

    def read_into(self, known: Flakiness) -> None:
        """Let the runs of other sessions count."""
        self._read_log()
        for index, nodeid in enumerate(self.nodeids):
            stored = self._log.get(nodeid, Tally()) - self._pushed[index]
            known.cases[index].stored = stored + self._elsewhere.get(nodeid, Tally())

    def sync(self, known: Flakiness, retry_for: float = 0.0) -> None:
        """Store new runs and read those of others; a storage that is unavailable is tried later."""
        try:
            for _ in range(2):  # a batch that waited, and what came after it
                retried(lambda: self._push(known), retry_for)
            retried(lambda: self.read_into(known), retry_for)
            self.problem = ""
        except StorageFailed as error:
            self.problem = str(error)

    def _push(self, known: Flakiness) -> None:
        """Add the runs since the last time; a batch whose answer was lost is sent again as it was.

        Runs of suspicious tests wait until it is clear which of them count.
        """
        if not self._batch:
            self._batch = {
                index: case.here
                for index, case in enumerate(known.cases)
                if case.here.runs > self._pushed[index].runs
                and not (case.suspicious or case.skipped)
            }
        if not self._batch:
            return
        rows = {}
        for index, tally in self._batch.items():
            new = tally - self._pushed[index]
            rows[self.nodeids[index]] = [0.0] * new.passes + [1.0] * new.failures
        self.study.add_history(rows, key=f"{self._key}:{self._pushes}")
        self._pushes += 1
        for index, tally in self._batch.items():
            self._pushed[index] = tally
        self._batch = {}

    def _read_log(self) -> None:
        for trial in self.study.trials(after=self._read_upto):
            self._log.setdefault(str(trial.arm), Tally()).add(failed=trial.reward > 0.0)
            self._read_upto = trial.number

    # Studies

    def _open(self) -> Study:
        settings = self.settings
        assert settings.storage is not None
        labels = sorted(self.nodeids)
        if len(labels) < 2:
            labels.append(NO_OTHER)
        words = {"rule": "absolute", "floor": settings.rate, "delta": settings.delta}
        text = "\0".join([*labels, *map(str, words.values())])
        number = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:8]
        return open_study(
            Question.of(labels, words),
            storage=settings.storage,
            name=f"pytest @{settings.version} #{number}",
        )

    def _read_others(self) -> None:
        """Read the other studies of this version, and those of some older ones."""
        settings = self.settings
        pattern = re.compile(r"pytest @(.+) #[0-9a-f]{8}")
        found = list_studies(
            storage=settings.storage,
            search="pytest @",
            most=MAX_STUDIES,
            sort="-created",
        )
        self._elsewhere = {}
        older: dict[str, Version] = {}
        for summary in found:
            named = pattern.fullmatch(summary.name)
            if named is None or summary.name == self.study.name or not summary.results:
                continue
            version = named[1]
            if version == settings.version:
                self._add(summary.name, self._elsewhere)
            elif version in older or len(older) < MAX_VERSIONS:
                seen = older.setdefault(version, Version(version, summary.created))
                self._add(summary.name, seen.tallies)
        self.older = list(older.values())

    def _add(self, name: str, tallies: dict[str, Tally]) -> None:
        for trial in load_study(name, storage=self.settings.storage).trials():
            tallies.setdefault(str(trial.arm), Tally()).add(failed=trial.reward > 0.0)

    # What has changed

    def change(self, nodeid: str, kind: Kind) -> Iterator[str]:
        """Yield what is new about a test, compared with the last older version that ran it."""
        version = next((v for v in self.older if nodeid in v.tallies), None)
        if version is None:
            return
        before = version.tallies[nodeid]
        when = f"{version.name} ({version.begun:%Y-%m-%d})"
        failed = f"{before.failures:,} of {before.runs:,} runs"
        if kind is Kind.FLAKY and not before.failures:
            yield f"new since {when}, where it passed {before.runs:,} times"
        elif kind is Kind.FLAKY and before.passes:
            yield f"flaky in {when} already: {failed}"
        elif kind is Kind.CLEAN and before.failures:
            yield f"fixed since {when}? It failed in {failed}"


def version_of(folder: Path) -> str:
    """Return a name for the present state of the code.

    The commit, and a hash of what was changed since and of new Python files; without git, the
    commit that a CI service names, or else the day and a hash of all Python files.
    """
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    if commit is not None:
        changes = _git(folder, "diff", "HEAD") or b""
        listed = _git(folder, "ls-files", "--others", "--exclude-standard", "-z", "*.py") or b""
        new = [folder / os.fsdecode(name) for name in sorted(listed.split(b"\0")) if name]
        changed = f"+{_hash(changes, new)}" if changes.strip() or new else ""
        return f"{commit.decode().strip()}{changed}"
    named = next((os.environ[name] for name in COMMITS if os.environ.get(name)), None)
    if named:
        return clean_version(named[:12])
    return f"{datetime.now(UTC):%Y-%m-%d}+{_hash(b'', _python_files(folder))}"


def _hash(changes: bytes, files: Iterable[Path]) -> str:
    found = hashlib.sha256(changes)
    for file in files:
        with suppress(OSError):  # it is gone, or may not be read
            found.update(os.fsencode(file) + b"\0" + file.read_bytes())
    return found.hexdigest()[:8]


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files below a folder, but for hidden folders and virtual environments."""
    for top, folders, files in os.walk(folder):
        own = [name for name in folders if not name.startswith(".")]
        folders[:] = sorted(name for name in own if not Path(top, name, "pyvenv.cfg").exists())
        yield from (Path(top, name) for name in sorted(files) if name.endswith(".py"))


def clean_version(text: str) -> str:
    """Return a version as part of a study's name."""
    return "".join(c if c.isprintable() else "?" for c in "-".join(text.split()))[:MAX_VERSION]


def _git(folder: Path, *words: str) -> bytes | None:
    """Return what git says, None if there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            check=True,
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
