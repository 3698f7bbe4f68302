"""``oddarms demo --serve``: a page that fills while a simulated crowd answers."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oddarms.arms import SimulatedArms
from oddarms.cli._printing import emit, note
from oddarms.problem import Question
from oddarms.studies import create_study

if TYPE_CHECKING:
    from oddarms.studies import Study

NAME = "crowd"
DESKS = ("desk Amsterdam", "desk Berlin", "desk Chennai")
"""Who asks the workers of the crowd, in turn."""
TICK = 0.1
"""Seconds between two handfuls of answers."""
FIRST_RATE, GROWTH, MOST = 300.0, 0.03, 1_000
"""Answers a second at first, how many more for each answer there is (about a
minute in all), and at a time."""


def serve_demo(question: Question, crowd: SimulatedArms, seed: int, port: int) -> None:
    """Serve a study of the crowd until Ctrl-C, while the answers come in at a pace to watch."""
    from oddarms.server import create_app
    from oddarms.server._run import Place, run
    from oddarms.server._tokens import Role

    with tempfile.TemporaryDirectory(prefix="oddarms-demo-") as folder:
        storage = Path(folder) / "demo.db"
        study = create_study(NAME, question, rng=seed, storage=storage)
        application = create_app(storage)
        token = application.state.oddarms.tokens.make(Role.ADMIN, note="demo")
        feeder = Feeder(study, crowd)

        def started(address: str) -> None:
            emit(f"Open this link and watch:\n  {address}/login?next=/studies/{NAME}#{token}\n")
            note("the crowd answers for about a minute; Ctrl-C ends the demo")
            feeder.start()

        try:
            run(application, Place(port=port), started)
        finally:
            feeder.stop()
    emit("The demo is over; nothing of it is kept. `oddarms serve` is for studies of your own.\n")


class Feeder(threading.Thread):
    """Asks and tells a study in the background, a little faster as there is more to see."""

    def __init__(self, study: Study, crowd: SimulatedArms) -> None:
        super().__init__(daemon=True, name="crowd")
        self._study = study
        self._crowd = crowd
        self._end = threading.Event()

    def run(self) -> None:
        """Answer until everything is decided, or somebody ends it."""
        told = turn = 0
        last = time.monotonic()
        while not self._end.wait(TICK):
            now = time.monotonic()
            handful = int((now - last) * (FIRST_RATE + GROWTH * told)) + 1
            last = now
            desk = DESKS[turn % len(DESKS)]
            tickets = self._study.ask(min(handful, MOST), worker=desk)
            arms = np.array([ticket.index for ticket in tickets], dtype=np.int64)
            rewards = self._crowd.pull(arms, np.ones_like(arms))
            answers = list(zip(tickets, rewards.tolist(), strict=True))
            self._study.tell_many(answers, worker=desk)
            told, turn = told + len(answers), turn + 1
            if tickets.done:
                break

    def stop(self) -> None:
        """End, after the handful under way."""
        self._end.set()
        if self.is_alive():
            self.join(timeout=10.0)
