"""``oddarms find``: sample items live, in a folder from which the same command resumes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oddarms.cli._options import (
    QUIET,
    RAW_CSV,
    RESULT_FORMAT,
    SEARCH,
    Given,
    add_history,
    arms_option,
    command,
    flag,
    option,
    seed_option,
    words_of,
)
from oddarms.cli._sampling import SAMPLING, Output, Sampling, sample, tell_untold
from oddarms.cli._terminal import EXIT_UNFINISHED, note, without_passwords
from oddarms.errors import InvalidParameter
from oddarms.files import writable_folder, write_whole
from oddarms.finding import STUDY_NAME, open_study
from oddarms.problem import WORDS, Question
from oddarms.search import seconds_of
from oddarms.studies import Study, load_study, retried
from oddarms.tables import read_labels
from oddarms.text import counted, shown

STUDY_FILE, SOURCE_FILE = "study.db", "source.json"
FOLDER = "the working directory"
MAX_NAME = 40
"""Characters of the readable part of a folder's name."""


@command(
    None,
    "find",
    arms_option(),
    *SAMPLING,
    *SEARCH,
    option("--history FILE|-", str, "Earlier samples: a table with the columns arm and reward."),
    seed_option("Seed for random choices."),
    option("--study NAME", str, "The study to create or resume; see --storage."),
    option("--storage URL", str, "Where the study is stored.", "study.db in --out"),
    option(
        "--out DIR",
        Path,
        "Folder for the search and its answer: result.json, arms.csv, report.html.",
        "output/find-..., named after the question",
    ),
    RESULT_FORMAT,
    RAW_CSV,
    flag("--fresh", "Start again; the old search in --out is moved aside."),
    flag("--same-source", "Resume even if --pull or another option that makes samples changed."),
    QUIET,
)
def find(given: Given) -> None:
    """Sample items live, as few times as possible, until each is decided.

    By default an item is abnormal if its mean lies at or above mean + K standard deviations of all
    means, and at least MARGIN above their mean; --rule has other definitions. The whole answer is
    right with probability at least 1 - DELTA. For data that are already recorded use `oddarms
    analyze`.

    Every sample is stored as soon as it is made. After Ctrl-C, a failure or a power cut the same
    command resumes; a larger --budget continues a search that used up its budget. Ctrl-C, SIGTERM
    and SIGHUP wait for the running commands and end the search cleanly; a second one does not wait.

    Exit codes: 0 every item is decided, or the goal was a budget; 3 some are undecided; 1 a sample
    failed; 2 bad usage; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.

    \b
    Examples:
      oddarms find --arms tests.txt --pull 'pytest -q {arm}' --timeout 60
      oddarms find --arms hosts --pull './ping {arm}' --reward stdout --clip 0,10
      oddarms find --arms hosts.txt --python checks:probe --budget 10000
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    words = words_of(given)
    plan = Sampling.of(given, words)
    arms, study, storage, quiet = given.arms, given.study, given.storage, given.quiet
    if arms is None and study is None:
        raise InvalidParameter("--arms or --study is required: they say what the items are.")
    if plan.function is None and study is None:
        raise InvalidParameter(
            "--pull or --python is required: they say how to sample. For recorded data use"
            " `oddarms analyze`."
        )
    labels = None if arms is None else list(read_labels(arms))
    question = None if labels is None else Question.of(labels, words)
    identity = plan.identity
    out = given.out or _usual_folder(question, identity, given)
    writable_folder("--out", out)
    output = Output(out, given.how, quiet, given.raw_csv)
    with _occupied(out):
        if given.fresh:
            _set_aside(out, storage, quiet=quiet)
        where = str(out / STUDY_FILE) if storage is None else storage
        wait = seconds_of("retry_for", plan.policy.retry_for)
        found = retried(lambda: _opened(study, where, question, words, given.seed), wait)
        if plan.function is not None:
            retried(lambda: _check_source(found, out, identity, same=given.same_source), wait)
        if given.history is not None:
            added = add_history(found, given.history)
            told = f"{counted(added, 'sample')} added" if added else "its samples count once"
            if not quiet:
                note(f"{shown(given.history)}: {told}")
        tell_untold(found, out, quiet=quiet)
        if not quiet and plan.function is not None:
            _say_resuming(found, here=storage is None)
        done = plan.function is None or found.done
        result = found.result() if done else sample(found, plan, output)
    output.finish(result)
    if not result.complete and result.question.goal != "budget":
        sys.exit(EXIT_UNFINISHED)


def _opened(
    name: str | None,
    storage: str,
    question: Question | None,
    words: dict[str, Any],
    seed: int | None,
) -> Study:
    """Return the study to resume, which must ask the same, or a new one."""
    if question is None:
        study = load_study(name or STUDY_NAME, storage=storage)
        stored = study.question
        known = {word: getattr(stored, word) for word in WORDS} | stored.options
        question = Question.of(stored.labels, known | words)
    return open_study(question, storage=storage, name=name or STUDY_NAME, rng=seed)


def _say_resuming(study: Study, *, here: bool) -> None:
    """Say how many samples there are already."""
    pulls = study.progress().pulls
    if not pulls:
        return
    samples = counted(pulls, "sample")
    if study.done:
        again = "--fresh" if here else "another --study"
        note(f"this search is done, with {samples}; {again} samples again")
    else:
        note(f"resuming with {samples} of {shown(study.storage)}")


# The folder


def _usual_folder(question: Question | None, identity: Mapping[str, Any], given: Given) -> Path:
    """Return the folder of a question: the same for the same question, whatever its budget.

    The name has a part for people and a hash of everything that must stay the same.
    """
    asked = None if question is None else question.but(budget=question.budget and 1).to_dict()
    arms, study = given.arms or "", given.study
    parts = [asked, identity, given.seed, study, without_passwords(given.storage or "")]
    text = json.dumps(parts, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:6]
    things = study or (Path(arms).stem if os.path.lexists(arms) else arms)
    name = " ".join(["find", things, *_words_of(identity)])
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_NAME].rstrip("-")
    return Path("output") / f"{plain}-{digest}"


def _words_of(identity: Mapping[str, Any]) -> Sequence[str]:
    """Return the words of a command or function, without those with an item in them."""
    how = identity.get("--pull") or identity.get("--python") or ""
    try:
        words = shlex.split(how)
    except ValueError:
        words = how.split()
    return [word for word in words if "{arm}" not in word]


@contextmanager
def _occupied(folder: Path) -> Iterator[None]:
    """Keep other searches out of a folder."""
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
            f"--out: another search runs in {shown(folder)}. To share a study, give each search"
            " --study, --storage and an --out of its own."
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


def _set_aside(out: Path, storage: str | None, *, quiet: bool) -> None:
    """Move the search in a folder, and its answer, to a new folder in there."""
    if storage is not None:
        raise InvalidParameter(
            "--fresh cannot be combined with --storage: give another --study instead."
        )
    names = (SOURCE_FILE, "result.json", "arms.csv", "report.html")
    files = [*(f"{STUDY_FILE}{end}" for end in ("-wal", "-shm", "-journal", "")), *names]
    old = [out / name for name in files] + list(out.glob("untold-*.txt"))
    old = [path for path in old if os.path.lexists(path)]
    if not old:
        return
    aside = out / f"before-{datetime.now(UTC):%Y-%m-%d-%H%M%S.%f}"
    aside.mkdir()
    for path in old:
        path.rename(aside / path.name)
    if not quiet:
        note(f"the search that was in {shown(out)} is in {shown(aside)} now")
