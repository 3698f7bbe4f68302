"""``oddarms demo``: find the outliers of a simulated crowd, here or on a page that fills."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from oddarms.arms import SimulatedArms, simulated_crowd
from oddarms.cli._terminal import EXIT_SIGNAL, emit, note
from oddarms.errors import MissingExtra, SearchInterrupted
from oddarms.files import writable_folder, write_whole
from oddarms.finding import find
from oddarms.plotting import plot_intervals
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K, Question
from oddarms.report import arms_csv, result_json
from oddarms.search import Result, facts
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


def demo(
    k: Annotated[float, typer.Option(help="Standard deviations above the mean.")] = DEFAULT_K,
    delta: Annotated[
        float, typer.Option(help="Permitted probability of an error.")
    ] = DEFAULT_DELTA,
    seed: Annotated[int, typer.Option(min=0, help="Decides the workers' answers.")] = 0,
    budget: Annotated[int | None, typer.Option(help="Ask at most this many questions.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for picture, JSON and CSV.")] = Path("output"),
    serve: Annotated[
        bool, typer.Option("--serve", help="Show it as a page that fills, until Ctrl-C.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page; 0 for any free one.")
    ] = 8321,
) -> None:
    """Find the crowd workers who err abnormally often, in a simulated crowd of 722.

    It asks them as few questions as possible, and compares the answer with the true error rates.
    """
    crowd = simulated_crowd()
    question = Question(crowd.labels, k=k, delta=delta, budget=budget)
    if serve:
        _serve(question, simulated_crowd(seed), seed, port)
        return
    writable_folder("--out", out)  # better to fail before the first sample
    said = (
        f"A simulated crowd of {question.n} workers: who errs abnormally often? That is,"
        f" {question.where} of all error rates. Each question asked is one sample. The answer is"
        f" wrong with probability at most {delta:g}."
    )
    emit(f"{filled(said, WIDTH)}\n\n")
    try:
        result = find(crowd, question, rng=seed, progress=True)
    except SearchInterrupted as error:
        note(f"interrupted after {error.result.pulls:,} samples; so far:")
        _report(error.result, out, "interrupted")
        raise typer.Exit(EXIT_SIGNAL + error.signal) from error
    _report(result, out, "crowd")
    _compare_with_truth(result, crowd)
    emit(
        "\nTo watch it happen in a browser: `oddarms demo --serve`. To watch studies of\n"
        "your own, with workers anywhere: `oddarms serve`.\n"
    )


def _report(result: Result, folder: Path, name: str) -> None:
    found = [str(label) for label in result.outliers]
    lines = [f"Outliers ({len(found)}):"]
    lines += ["  " + " ".join(found[start : start + 7]) for start in range(0, len(found), 7)]
    lines += [filled(f"{fact.capitalize()}: {value}", WIDTH) for fact, value in facts(result)]
    if result.undecided:
        lines.append(f"Undecided: {len(result.undecided)} workers")
    emit("\n".join(lines) + "\n")
    try:
        picture = folder / f"{name}.png"
        plot_intervals(result, picture, first_round=True)
        emit(f"Written: {picture}\n")
    except MissingExtra as error:
        note(f"No picture: {error}")
    write_whole(folder / f"{name}.json", result_json(result))
    write_whole(folder / f"{name}.csv", arms_csv(result))
    emit(f"Written: {folder / name}.json\nWritten: {folder / name}.csv\n")


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
        feeder = _Feeder(study, crowd)

        def started(address: str) -> None:
            emit(f"Open this link and watch:\n  {address}/login?next=/studies/{NAME}#{token}\n")
            note("the crowd answers for about a minute; Ctrl-C ends the demo")
            feeder.start()

        try:
            run(application, Binding(port=port), started)
        finally:
            feeder.stop()
    emit("The demo is over; nothing of it is kept. `oddarms serve` is for studies of your own.\n")


class _Feeder(threading.Thread):
    """Asks and tells a study in the background, faster as there is more to see."""

    def __init__(self, study: Study, crowd: SimulatedArms) -> None:
        super().__init__(daemon=True, name="crowd")
        self._study = study
        self._crowd = crowd
        self._end = threading.Event()

    def run(self) -> None:
        """Answer until everything is decided, or `stop` is called."""
        told = turn = 0
        last = time.monotonic()
        while not self._end.wait(TICK_SECONDS):
            now = time.monotonic()
            batch = int((now - last) * (FIRST_RATE + GROWTH * told)) + 1
            last = now
            desk = DESKS[turn % len(DESKS)]
            tickets = self._study.ask(min(batch, MAX_BATCH), worker=desk)
            arms = np.array([ticket.index for ticket in tickets], dtype=np.int64)
            rewards = self._crowd.pull(arms, np.ones_like(arms))
            answers = list(zip(tickets, rewards.tolist(), strict=True))
            self._study.tell_many(answers, worker=desk)
            told, turn = told + len(answers), turn + 1
            if tickets.done:
                break

    def stop(self) -> None:
        """End after the batch under way."""
        self._end.set()
        if self.is_alive():
            self.join(timeout=10.0)
