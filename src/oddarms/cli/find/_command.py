"""``oddarms find``: point it at real things and get the answer."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from oddarms.arms import Command
from oddarms.cli._guard import EXIT_UNFINISHED
from oddarms.cli._tables import Format, counted, note, shown
from oddarms.cli.find._display import FindDisplay
from oddarms.cli.find._output import Found, show, write
from oddarms.cli.find._sources import Occupied, import_function, parse_bounds
from oddarms.cli.study._files import read_labels
from oddarms.errors import InvalidParameter, PullFailed, SearchError, UnknownStudy
from oddarms.experiments import RecordedArms, read_rewards
from oddarms.files import writable_folder
from oddarms.problem import check_bounds
from oddarms.search import Search
from oddarms.studies import Study, create_study, load_study

STUDY_FILE, STUDY_NAME = "study.db", "find"
DEFAULT_K, DEFAULT_DELTA, DEFAULT_BOUNDS = 2.0, 0.05, (0.0, 1.0)
KINDS = ("exit-code", "stdout")
MOST_LEASE_SECONDS = 1e8


class OnError(StrEnum):
    """What a pull that fails means."""

    stop = "stop"
    retry = "retry"
    worst = "worst"
    drop = "drop"


class SideName(StrEnum):
    """Which side is abnormal."""

    UPPER = "upper"
    LOWER = "lower"
    BOTH = "both"


def find(
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-|A,B,C", help="The things: a file with one a line, - for stdin, a list."
        ),
    ] = None,
    pull: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="Sample by running a command; {arm} in it is the thing."
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="Sample by calling a function with the thing."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Recorded samples, CSV or Parquet, one a row."),
    ] = None,
    arm: Annotated[
        str, typer.Option(metavar="COLUMN", help="The table's column of things.")
    ] = "arm",
    reward: Annotated[
        str | None,
        typer.Option(
            metavar="exit-code|stdout|COLUMN",
            help="With --pull: exit-code (1 if the command fails; the default) or stdout (the"
            " number in its last line). With --table: the column of rewards (by default `reward`).",
        ),
    ] = None,
    reward_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The table's column, where --reward speaks of --pull."),
    ] = None,
    k: Annotated[
        float | None,
        typer.Option(
            help="Abnormal: mean + K standard deviations or more.", show_default=f"{DEFAULT_K:g}"
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="Permitted probability of any wrong answer.", show_default=f"{DEFAULT_DELTA:g}"
        ),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="The smallest and the largest possible reward.",
            show_default="0,1",
        ),
    ] = None,
    side: Annotated[
        SideName | None, typer.Option(help="Which side is abnormal.", show_default="upper")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Samples at a time.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a command is killed.")
    ] = None,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="A command that hangs or crashes: stop; retry it; count it as the worst reward;"
            " or drop it, which is sound only if failing has nothing to do with the reward."
        ),
    ] = OnError.stop,
    budget: Annotated[int | None, typer.Option(min=0, help="At most this many samples.")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="spade, ade, rr, wrr.", show_default="spade")
    ] = None,
    indifference: Annotated[
        float | None,
        typer.Option(help="Things this close to the threshold may be called either way (spade)."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides the algorithm's choices.")] = None,
    study: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A study to go on with, or to make; see --storage."),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the study is; by default study.db in --out."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for result.json, arms.csv, report.html.")
    ] = Path("output/find"),
    format: Annotated[  # noqa: A002 - the option's name
        Format, typer.Option("--format", help="What to print: a table, JSON or CSV.")
    ] = Format.table,
    shell: Annotated[bool, typer.Option("--shell", help="Run the command by sh -c.")] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="The function takes a list and returns a list.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Find the abnormal ones: sample things, as little as possible, until each is decided.

    A thing is abnormal if its mean reward lies at or above mean + K standard deviations of all
    things' means. The whole answer is right with probability at least 1 - DELTA.

    Every sample is stored the moment it is there. Stopped by Ctrl-C, a failure or a power cut, the
    same command goes on where it was.

    Exit codes: 0 every thing is decided, 3 not (the budget or the table ended), 1 a sample
    failed, 2 bad usage, 130 Ctrl-C.

    \b
    Try:
      oddarms find --arms tests.txt --pull 'pytest -q {arm}' --jobs 4 --timeout 60
      oddarms find --arms a,b,c,d,e,f --pull './latency {arm}' --reward stdout --bounds 0,10
      oddarms find --table answers.csv --arm worker --reward wrong
      oddarms find --arms hosts.txt --python checks:probe --budget 10000
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    asked = _Asked(
        k=k,
        delta=delta,
        bounds=None if bounds is None else check_bounds(parse_bounds(bounds)),
        side=None if side is None else side.value,
        algorithm=algorithm,
        budget=budget,
        seed=seed,
        options=None if indifference is None else {"indifference": indifference},
    )
    kind, column = _reward_meanings(reward, reward_column, pull=pull, table=table)
    function = _function(pull, python, kind, timeout, shell=shell, batch=batch)
    if table is None and arms is None and study is None:
        raise InvalidParameter("one of --arms, --table and --study must say what the things are.")
    if function is None and table is None and study is None:
        raise InvalidParameter("one of --pull, --python and --table must say how to sample.")
    writable_folder("--out", out)
    if function is None and study is None:
        assert table is not None
        found = _from_history(_read(table, arm, column, asked, quiet=quiet), arms, asked)
    else:
        with Occupied(out) as worker:
            opened = _loaded(study, storage, out)
            if opened is not None:
                asked = asked.within(opened)
            history = None if table is None else _read(table, arm, column, asked, quiet=quiet)
            opened = _opened(opened, study, storage, out, arms, history, asked)
            opened.skip_worker(worker, "its process is gone")
            if not quiet and function is not None:
                _say_going_on(opened)
            if history is not None:
                _import(opened, history, table, quiet=quiet)
            run = _Run(opened, worker, jobs, timeout, on_error, out, batch=batch, quiet=quiet)
            found = run.until_done(function)
    write(found, out)
    show(found, format, out, quiet=quiet)
    if not found.result.complete:
        raise typer.Exit(EXIT_UNFINISHED)


@dataclass(frozen=True)
class _Asked:
    """The question, as far as the options put it; what was left out is None."""

    k: float | None
    delta: float | None
    bounds: tuple[float, float] | None
    side: Any
    algorithm: str | None
    budget: int | None
    seed: int | None
    options: dict[str, Any] | None

    def within(self, study: Study) -> _Asked:
        """Return the question with the study's answer for what was left out.

        Raises
        ------
        InvalidParameter
            If it was asked another one.
        """
        names = [field.name for field in fields(self)]
        stored = {name: getattr(study.question, name) for name in names}
        for name, given in vars(self).items():
            if given is not None and given != stored[name]:
                option = "--indifference" if name == "options" else f"--{name}"
                raise _another_question(study, option, f"has {stored[name]!r}, not {given!r}")
        return replace(self, **stored)

    def words(self) -> dict[str, Any]:
        """Return the whole question, for a study or a search."""
        return {
            "k": DEFAULT_K if self.k is None else self.k,
            "delta": DEFAULT_DELTA if self.delta is None else self.delta,
            "bounds": self.bounds or DEFAULT_BOUNDS,
            "side": self.side or "upper",
            "algorithm": self.algorithm or "spade",
            **(self.options or {}),
        }


def _reward_meanings(
    reward: str | None, reward_column: str | None, *, pull: str | None, table: Path | None
) -> tuple[str, str]:
    """Return how a command's reward is read, and the name of the table's column."""
    kind, column = "exit-code", reward_column or "reward"
    if reward is None:
        return kind, column
    if pull is not None and reward in KINDS:
        return reward, column
    if table is not None:
        return kind, reward_column or reward
    raise InvalidParameter(f"--reward must be exit-code or stdout but got {reward!r}.")


def _function(
    pull: str | None,
    python: str | None,
    kind: str,
    timeout: float | None,
    *,
    shell: bool,
    batch: bool,
) -> Callable[[Any], Any] | None:
    if pull is not None and python is not None:
        raise InvalidParameter("--pull and --python must not be given together.")
    if pull is None and (timeout is not None or shell):
        option = "--shell" if shell else "--timeout"
        raise InvalidParameter(f"{option} must be given together with --pull, which it is for.")
    if python is None and batch:
        raise InvalidParameter("--batch must be given together with --python, which it is for.")
    if pull is not None:
        return Command(pull, reward=kind, timeout=timeout, shell=shell)  # type: ignore[arg-type]
    return None if python is None else import_function(python)


def _read(table: Path, arm: str, column: str, asked: _Asked, *, quiet: bool) -> RecordedArms:
    history = read_rewards(table, arm=arm, reward=column, bounds=asked.bounds or DEFAULT_BOUNDS)
    if not quiet:
        rows = sum(rewards.size for rewards in (history.records or {}).values())
        note(f"{table}: {counted(rows, 'sample')} of {len(history.labels):,} things")
    return history


def _labels(arms: str | None, history: RecordedArms | None) -> list[str] | None:
    if arms is not None:
        return list(read_labels(arms))
    return None if history is None else list(history.labels)


def _from_history(history: RecordedArms, arms: str | None, asked: _Asked) -> Found:
    """Say what recorded samples prove, without a study."""
    labels = list(history.labels) if arms is None else list(read_labels(arms))
    search = Search(labels, rng=np.random.default_rng(asked.seed), **asked.words())
    if not search.done:
        search.add(history.records or {})
    search.stop("the table ended")
    indifference = (asked.options or {}).get("indifference", 0.0)
    return Found(search.result(), search.algorithm.pulls_needed(), indifference)


def _loaded(name: str | None, storage: str | None, out: Path) -> Study | None:
    """Return the study to go on with, if it is there."""
    where = _storage(storage, out)
    if storage is None and not Path(where).exists():
        return None
    try:
        return load_study(name or STUDY_NAME, storage=where)
    except UnknownStudy:
        return None


def _storage(storage: str | None, out: Path) -> str:
    return storage if storage is not None else str(out / STUDY_FILE)


def _opened(
    study: Study | None,
    name: str | None,
    storage: str | None,
    out: Path,
    arms: str | None,
    history: RecordedArms | None,
    asked: _Asked,
) -> Study:
    """Return the study to go on with, checked to have the same things, or a new one."""
    labels = _labels(arms, history)
    if study is not None:
        # a table may leave out some of the things
        if arms is not None and list(study.labels) != labels:
            raise _another_question(study, "--arms", "has other things")
        return study
    where = _storage(storage, out)
    if labels is None:
        raise UnknownStudy(
            f"--study must be one that exists, or --arms or --table must say what its things are,"
            f" but there is no study {name!r} in {shown(where)}."
        )
    return create_study(
        name or STUDY_NAME,
        arms=labels,
        budget=asked.budget,
        seed=asked.seed,
        storage=where,
        **asked.words(),
    )


def _another_question(study: Study, option: str, told: str) -> InvalidParameter:
    return InvalidParameter(
        f"{option} must be what the study in {shown(study.storage)} was begun with, which {told};"
        " choose another --out or --study to begin anew."
    )


def _say_going_on(study: Study) -> None:
    pulls = study.progress().pulls
    if pulls:
        note(f"going on with {counted(pulls, 'sample')} of the study in {shown(study.storage)}")


def _import(study: Study, history: RecordedArms, table: Path | None, *, quiet: bool) -> None:
    assert table is not None
    with table.open("rb") as file:
        key = hashlib.file_digest(file, "sha256").hexdigest()
    added = study.tell_arms(history.records or {}, key=key)
    if not added and not quiet:
        note(f"{table} was imported before; its samples count once")


@dataclass(frozen=True)
class _Run:
    """How a study is run."""

    study: Study
    worker: str
    jobs: int
    timeout: float | None
    on_error: OnError
    out: Path
    _: KW_ONLY
    batch: bool
    quiet: bool

    def until_done(self, function: Callable[[Any], Any] | None) -> Found:
        """Sample until the study is done; whatever happens, write what is known."""
        if function is None:
            return _found(self.study)
        pulls = self.study.progress().pulls
        with FindDisplay(sys.stderr, shown=not self.quiet, first_pulls=pulls) as display:
            self.study.on_decision(display.decided)
            try:
                self.study.run(
                    function,
                    jobs=self.jobs,
                    worker=self.worker,
                    lease=self._lease,
                    on_error=self.on_error.value,
                    progress=display.update,
                    batch=self.batch,
                )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"interrupted: {self._kept()}") from None
            except SearchError as error:
                label = error.label if isinstance(error, PullFailed) else None
                said = str(error).rstrip(".")
                raise PullFailed(f"{said}. {self._kept()}", label) from error
        return _found(self.study)

    @property
    def _lease(self) -> timedelta:
        seconds = 3600.0 if self.timeout is None else 10.0 * self.timeout + 60.0
        return timedelta(seconds=min(seconds, MOST_LEASE_SECONDS))

    def _kept(self) -> str:
        """Write what is known and say where it is, and how to go on."""
        write(_found(self.study), self.out)
        pulls = counted(self.study.progress().pulls, "sample")
        return (
            f"{pulls} kept in {shown(self.study.storage)}, and what is known in"
            f" {shown(self.out)}; the same command goes on from there."
        )


def _found(study: Study) -> Found:
    indifference = study.question.options.get("indifference", 0.0)
    return Found(study.result(), study.pulls_needed(), indifference)
