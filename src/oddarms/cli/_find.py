"""``oddarms find``: sample items live, in a folder from which the same command resumes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oddarms.cli import _options as opts
from oddarms.cli._options import Given, command, flag, option, seed_option
from oddarms.cli._sampling import SAMPLING, Output, Sampling, sample
from oddarms.cli._terminal import EXIT_UNFINISHED, note
from oddarms.errors import InvalidParameter
from oddarms.files import writable_folder, write_whole
from oddarms.finding import open_study
from oddarms.problem import Question
from oddarms.search import seconds_of
from oddarms.studies import Study, retried
from oddarms.tables import read_labels
from oddarms.text import counted, shown

STUDY_FILE, SOURCE_FILE = "study.db", "source.json"
FOLDER = "the working directory"
MAX_NAME = 40
"""Characters of the readable part of a folder's name."""


@command(
    None,
    "find",
    opts.ITEMS,
    *SAMPLING,
    *opts.SEARCH,
    option("--history FILE|-", str, "Table of earlier samples with the columns arm and reward."),
    seed_option("Seed for random choices."),
    option(
        "--out DIR",
        Path,
        "Folder for the search and its answer: result.json, arms.csv, report.html.",
        "output/find-..., named after the question",
    ),
    opts.RESULT_FORMAT,
    flag("--fresh", "Start again; move the old search in --out aside."),
    flag("--same-source", "Resume even if --pull or another option that makes samples changed."),
    opts.QUIET,
)
def find(given: Given) -> None:
    """Sample items live, as few times as possible, until each is decided.

    By default an item is abnormal if its mean lies at or above mean + K standard deviations of all
    means, and at least MARGIN above their mean; --rule has other definitions. The whole answer is
    right with probability at least 1 - DELTA. For data that are already recorded use `oddarms
    analyze`.

    Every sample is stored at once. After Ctrl-C, SIGTERM, SIGHUP, a failure or a power cut the same
    command resumes; a larger --budget continues a search that used up its budget.

    Exit codes: 0 every item is decided, or the goal was a budget; 3 some are undecided; 1 a sample
    failed; 2 bad usage; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.

    \b
    Examples:
      oddarms find --arms tests.txt --pull 'pytest -q {arm}' --timeout 60
      oddarms find --arms hosts --pull './ping {arm}' --reward stdout --clip 0,10
      oddarms find --arms hosts.txt --python checks:probe --budget 10000
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    words = opts.words_of(given)
    plan, quiet = Sampling.of(given, words), given.quiet
    question = Question.of(read_labels(given.arms), words)
    out = given.out or _usual_folder(question, plan.identity, given)
    writable_folder("--out", out)
    output = Output(out, given.how, quiet)
    with _occupied(out):
        if given.fresh:
            _set_aside(out, quiet=quiet)
        wait = seconds_of("retry_for", plan.policy.retry_for)
        where = str(out / STUDY_FILE)
        study = retried(lambda: open_study(question, storage=where, rng=given.seed), wait)
        _check_source(study, out, plan.identity, same=given.same_source)
        if given.history is not None:
            added = opts.add_history(study, given.history)
            told = f"{counted(added, 'sample')} added" if added else "its samples count once"
            if not quiet:
                note(f"{shown(given.history)}: {told}")
        if not quiet:
            _say_resuming(study)
        result = study.result() if study.done else sample(study, plan, output)
    output.finish(result)
    if not result.complete and result.question.goal != "budget":
        sys.exit(EXIT_UNFINISHED)


def _say_resuming(study: Study) -> None:
    pulls = study.progress().pulls
    if pulls:
        samples = counted(pulls, "sample")
        note(
            f"this search is done, with {samples}; --fresh samples again"
            if study.done
            else f"resuming with {samples} of {shown(study.storage)}"
        )


# The folder


def _usual_folder(question: Question, identity: Mapping[str, Any], given: Given) -> Path:
    """Return the folder of a question: the same for the same question, whatever its budget.

    The name has a part for people and a hash of everything that must stay the same.
    """
    asked = question.but(budget=question.budget and 1).to_dict()
    text = json.dumps([asked, identity, given.seed], sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:6]
    things = Path(given.arms).stem if os.path.lexists(given.arms) else given.arms
    plain = re.sub(r"[^a-z0-9]+", "-", f"find {things}".lower()).strip("-")[:MAX_NAME].rstrip("-")
    return Path("output") / f"{plain}-{digest}"


@contextmanager
def _occupied(folder: Path) -> Iterator[None]:
    path = folder / ".lock"
    try:  # a link might lead elsewhere, a pipe would block
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise InvalidParameter(
            f"--out: cannot open {shown(path)} ({error.strerror or error}): remove it."
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InvalidParameter(
            f"--out: another search runs in {shown(folder)}. Several processes can share a study:"
            " see `oddarms study work --help`."
        ) from None
    finally:
        os.close(handle)


def _check_source(study: Study, out: Path, identity: dict[str, Any], *, same: bool) -> None:
    """Raise if the samples of a study were made in another way; remember how they are made."""
    path = out / SOURCE_FILE
    given = {**identity, FOLDER: os.path.relpath(os.getcwd(), out)}
    try:
        known = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        known = {}
    if known == given:
        return
    if isinstance(known, dict) and known and not same and study.overview().told:
        name = next(name for name in {**known, **given} if known.get(name) != given.get(name))
        before, now = (_told(values.get(name)) for values in (known, given))
        raise InvalidParameter(
            f"{name} was {before} for the samples in {shown(out)} but is {now} now. --fresh starts"
            " again and moves the old search aside; --same-source resumes, if the samples mean the"
            " same."
        )
    write_whole(path, json.dumps(given, indent=1) + "\n")


def _told(value: object) -> str:
    return "not given" if value is None else repr(value)


def _set_aside(out: Path, *, quiet: bool) -> None:
    """Move the search in a folder, and its answer, to a new folder in there."""
    names = (SOURCE_FILE, "result.json", "arms.csv", "report.html")
    files = [*(f"{STUDY_FILE}{end}" for end in ("-wal", "-shm", "-journal", "")), *names]
    old = [out / name for name in files]
    old = [path for path in old if os.path.lexists(path)]
    if not old:
        return
    aside = out / f"before-{datetime.now(UTC):%Y-%m-%d-%H%M%S.%f}"
    aside.mkdir()
    for path in old:
        path.rename(aside / path.name)
    if not quiet:
        note(f"the search that was in {shown(out)} is in {shown(aside)} now")
