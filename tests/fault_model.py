"""What must be in a study after faults, according to the ledgers of all who worked on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from fault_process import whole_lines
from oddarms.search import Result
from oddarms.studies import Study, Told, Trial
from study_answers import assert_same_answer, never_killed

TAIL = 6
"""Lines of each ledger that a report of a failure has."""


class Model:
    """What the ledgers say was asked for, told, acknowledged and refused.

    Attributes
    ----------
    pulls
        Arm and place of each ticket that somebody got.
    intended
        The rewards that somebody began to tell, by ticket, with how often each.
    acknowledged
        What was answered to each ticket with each reward.
    paid
        What each worker's functions have returned.
    untold
        The rewards that an interrupted worker could not tell, and handed on.
    """

    def __init__(self, folder: Path) -> None:
        self.pulls: dict[str, tuple[int, int]] = {}
        self.intended: dict[str, Counter[float]] = defaultdict(Counter)
        self.acknowledged: dict[tuple[str, float], Counter[str]] = defaultdict(Counter)
        self.paid: dict[str, set[float]] = defaultdict(set)
        self.untold: set[float] = set()
        self.ended: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        for ledger in sorted(folder.glob("ledger-*")):
            name = ledger.name.removeprefix("ledger-")
            for _, word, *rest in whole_lines(ledger):
                self._read(name, word, rest)

    def _read(self, name: str, word: str, rest: list[str]) -> None:
        self.counts[word] += 1
        if word == "asked":
            assert rest[0] not in self.pulls, f"ticket {rest[0]} was handed out twice"
            self.pulls[rest[0]] = int(rest[1]), int(rest[2])
        elif word == "telling":
            self.intended[rest[0]][float(rest[1])] += 1
        elif word == "told":
            self.acknowledged[rest[0], float(rest[1])][rest[2]] += 1
            self.counts[rest[2]] += 1
        elif word == "paid":
            self.paid[name].add(float(rest[0]))
        elif word == "untold":
            self.untold.add(float(rest[1]))
        elif word == "ended":
            self.ended[name] = " ".join(rest)

    def check(self, study: Study, calm: set[str]) -> None:
        """Hold a study that nobody works on any more against all that is known.

        Parameters
        ----------
        study
            What was shaken.
        calm
            The workers that were asked to end while nothing else was wrong.
        """
        trials = list(study.trials())
        stored = {trial.ticket: trial.reward for trial in trials}
        assert len(stored) == len(trials), "a ticket has two results"
        self._check_answers(stored)
        self._check_conflicts(study, stored)
        for trial in trials:
            assert trial.reward in self.intended.get(trial.ticket, ()), f"nobody told {trial}"
            arm = study.labels.index(trial.arm)
            assert self.pulls.get(trial.ticket, (arm, 0))[0] == arm, f"another pull: {trial}"
        self._check_places(trials)
        self._check_paid(set(stored.values()), calm)

    def _check_places(self, trials: list[Trial]) -> None:
        """No place has two results; a result stands elsewhere only if its place was taken."""
        filled = {(trial.arm, trial.place) for trial in trials}
        assert len(filled) == len(trials), "a place has two results"
        for trial in trials:
            _, place = self.pulls.get(trial.ticket or "", (0, trial.place))
            assert (trial.arm, place) in filled, f"{trial} left its place without need"

    def lost(self, stored: dict[str, float]) -> list[tuple[str, float]]:
        """Return what was acknowledged and is not there."""
        kept = (Told.RECORDED, Told.REPEATED)
        return [
            (ticket, reward)
            for (ticket, reward), answers in self.acknowledged.items()
            if any(said in answers for said in kept) and stored.get(ticket) != reward
        ]

    def _check_answers(self, stored: dict[str, float]) -> None:
        lost = self.lost(stored)
        assert not lost, f"{len(lost)} acknowledged results are lost: {lost[:5]}"
        recorded: Counter[str] = Counter()
        for (ticket, reward), answers in self.acknowledged.items():
            recorded[ticket] += answers[Told.RECORDED]
            unanswered = self.intended[ticket][reward] - answers.total()
            if answers[Told.REPEATED] and not answers[Told.RECORDED]:
                assert unanswered > 0, f"{ticket} was repeated but never recorded"
        assert max(recorded.values(), default=0) <= 1, "a result was recorded twice"

    def _check_conflicts(self, study: Study, stored: dict[str, float]) -> None:
        listed = Counter((c.ticket, c.second) for c in study.conflicts())
        refused: Counter[str] = Counter()
        for (ticket, reward), answers in self.acknowledged.items():
            if answers[Told.CONFLICT]:
                assert stored[ticket] != reward, f"{ticket} was refused though it is the same"
                refused[ticket] += answers[Told.CONFLICT]
        kept = Counter(ticket for ticket, _ in listed.elements())
        for ticket, times in refused.items():
            assert kept[ticket] >= min(times, 3), f"{ticket} is not listed"
        assert study.overview().conflicts >= refused.total()
        for (ticket, reward), times in listed.items():
            assert times <= self.intended[ticket][reward], "a conflict that nobody told"

    def _check_paid(self, stored: set[float], calm: set[str]) -> None:
        """Whoever was not killed has lost no reward that was paid for."""
        for name, how in self.ended.items():
            if name in calm or how == "done":
                assert self.paid[name] <= stored, f"{name} has lost rewards"
            elif how == "interrupted":
                assert self.paid[name] <= stored | self.untold, f"{name} has lost rewards"


def check_answer(study: Study) -> Result:
    """Check that a finished study answers as a search in memory does that is fed its log."""
    found = study.overview()
    assert found.status.final, found.status
    assert found.live == 0, f"{found.live} tickets are out"
    result = found.result
    assert_same_answer(result, never_killed(study))
    if study.question.budget is not None:
        assert result.pulls <= study.question.budget
    return result


def tails(folder: Path) -> str:
    """Return the last lines of all ledgers."""
    parts = []
    for ledger in sorted(folder.glob("ledger-*"), key=lambda path: path.stat().st_mtime):
        last = ledger.read_text().splitlines()[-TAIL:]
        parts.append(f"{ledger.name}:\n" + "\n".join(f"    {line[-1000:]}" for line in last))
    return "\n".join(parts)
