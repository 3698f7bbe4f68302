"""``oddarms demo``: find the outliers of a simulated crowd, here or on a page that fills."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from oddarms.arms import SimulatedArms, simulated_crowd
from oddarms.cli import _options as opts
from oddarms.cli._options import Given, command, flag, option, seed_option
from oddarms.cli._sampling import Output
from oddarms.cli._terminal import EXIT_SIGNAL, emit, note
from oddarms.errors import SearchInterrupted
from oddarms.files import writable_folder
from oddarms.finding import find
from oddarms.problem import Question
from oddarms.search import Result
from oddarms.studies import Study, create_study
from oddarms.text import WIDTH, filled
from oddarms.theory import outliers

NAME = "crowd"
DESKS = ("desk Amsterdam", "desk Berlin", "desk Chennai")
"""Workers of the study on the page, in turn."""
TICK_SECONDS = 0.1
FIRST_RATE, GROWTH, MAX_BATCH = 300.0, 0.03, 1_000
"""Answers a second at first, how many more per answer so far (about a minute in all), and at a
time."""


@command(
    None,
    "demo",
    opts.SIGMAS,
    opts.DELTA,
    seed_option("Seed for the workers' answers.", 0),
    option("--budget N", int, "Ask at most this many questions.", "no limit"),
    option(
        "--out DIR",
        Path,
        "Folder for report.html, result.json and arms.csv.",
        default="output/demo",
    ),
    flag("--serve", "Show the search live on a web page, until Ctrl-C."),
    opts.PORT,
)
def demo(given: Given) -> None:
    """Find the workers who err abnormally often in a simulated crowd of 722.

    The demo asks them as few questions as possible and compares the answer with the true error
    rates.
    """
    crowd, seed = simulated_crowd(), given.seed
    question = Question.of(crowd.labels, opts.words_of(given))
    if given.serve:
        _serve(question, simulated_crowd(seed), seed, given.port)
        return
    writable_folder("--out", given.out)  # better to fail before the first sample
    said = (
        f"A simulated crowd of {question.n} workers: who errs abnormally often? That is,"
        f" {question.where} of all error rates. Each question asked is one sample. The answer is"
        f" wrong with probability at most {question.delta:g}."
    )
    emit(f"{filled(said, WIDTH)}\n\n")
    output = Output(given.out)
    try:
        result = find(crowd, question, rng=seed, progress=True)
    except SearchInterrupted as error:
        note(f"interrupted after {error.result.pulls:,} samples; so far:")
        output.finish(error.result)
        sys.exit(EXIT_SIGNAL + error.signal)
    output.finish(result)
    _compare_with_truth(result, crowd)
    emit(
        "\nTo watch it happen in a browser: `oddarms demo --serve`. To watch studies of\n"
        "your own, with workers anywhere: `oddarms serve`.\n"
    )


def _compare_with_truth(result: Result, crowd: SimulatedArms) -> None:
    question = result.question
    centre = float(np.mean(crowd.means)) + question.margin
    odd = outliers(crowd.means, question.k)
    truth = {crowd.labels[i] for i in odd if crowd.means[i] >= centre}
    wrong = [label for label in result.outliers if label not in truth]
    wrong += [label for label in result.normal if label in truth]
    said = f"{len(wrong)} decisions are wrong" if wrong else "every decision is right"
    emit(f"\nThe simulation knows the true error rates: {said}.\n")


# The page


def _serve(question: Question, crowd: SimulatedArms, seed: int, port: int) -> None:
    """Serve a study of the crowd until Ctrl-C, while the answers come in at a pace to watch."""
    from oddarms.server import Binding, Role, create_app, run

    with tempfile.TemporaryDirectory(prefix="oddarms-demo-") as folder:
        storage = Path(folder) / "demo.db"
        study = create_study(NAME, question, rng=seed, storage=storage)
        application = create_app(storage)
        token = application.state.oddarms.tokens.make(Role.ADMIN, note="demo")
        over = threading.Event()
        feeder = threading.Thread(target=_feed, args=(study, crowd, over), daemon=True)

        def started(address: str) -> None:
            emit(f"Open this link and watch:\n  {address}/login?next=/studies/{NAME}#{token}\n")
            note("the crowd answers for about a minute; Ctrl-C ends the demo")
            feeder.start()

        try:
            run(application, Binding(port=port), started)
        finally:
            over.set()
            if feeder.is_alive():
                feeder.join(timeout=10.0)
    emit("The demo is over; nothing of it is kept. `oddarms serve` is for studies of your own.\n")


def _feed(study: Study, crowd: SimulatedArms, over: threading.Event) -> None:
    """Ask and tell until everything is decided or it is over, faster as there is more to see."""
    told = turn = 0
    last = time.monotonic()
    while not over.wait(TICK_SECONDS):
        now = time.monotonic()
        batch = int((now - last) * (FIRST_RATE + GROWTH * told)) + 1
        last = now
        desk = DESKS[turn % len(DESKS)]
        tickets = study.ask(min(batch, MAX_BATCH), worker=desk)
        arms = np.array([ticket.index for ticket in tickets], dtype=np.int64)
        rewards = crowd.pull(arms, np.ones_like(arms))
        study.tell_many(zip(tickets, rewards.tolist(), strict=True), worker=desk)
        told, turn = told + len(tickets), turn + 1
        if tickets.done:
            break
