"""What every storage promises: a file, PostgreSQL and a server behave the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest

from helpers import quick_and_long, ticket_number
from oddarms import Question, Study, create_study, delete_study, list_studies, load_study
from oddarms.errors import DuplicateStudy, InvalidParameter, RewardRejected, UnknownStudy
from oddarms.problem import Label
from oddarms.search import Status
from oddarms.studies import Told
from oddarms.studies.wire import MAX_TEXT
from small_studies import make, work
from storages import storage
from study_answers import assert_same_answer, never_killed

__all__ = ["storage"]

MOMENT = 0.02
"""Seconds of a lease that ends while a test waits."""
NASTY = ["'; DROP TABLE results; --", '"quoted"', "%s %(name)s :name ?", "é𝄞", "a/b", "50%", "{}"]


def told(study: Study) -> list[tuple[str | None, Label, float]]:
    return [(trial.ticket, trial.arm, trial.reward) for trial in study.trials()]


def places(tickets: Any) -> set[tuple[int, int]]:
    return {(ticket.index, ticket.place) for ticket in tickets}


class TestStudies:
    def test_what_was_created_is_loaded(self, storage: str) -> None:
        study = make(storage, budget=90, side="both", bounds=(-1.0, 3.0), rng=7)
        again = load_study("s", storage=storage)
        assert again.question == study.question
        assert (again.seed, again.n, tuple(again.labels)) == (study.seed, 3, ("a", "b", "c"))
        assert again.storage == study.storage
        assert repr(again) == f"Study('s', 3 arms, storage='{study.storage}')"

    def test_from_a_question_and_with_numbers_of_numpy(self, storage: str) -> None:
        question = Question(np.arange(3), k=np.int64(1), delta=np.float32(0.5), budget=np.int64(9))
        create_study("s", question, rng=np.uint8(3), storage=storage)
        again = load_study("s", storage=storage)
        assert again.question == question
        assert [type(label) for label in again.labels] == [int, int, int]

    def test_any_label_comes_back(self, storage: str) -> None:
        labels: list[Label] = [*NASTY, "nul \0", "\ud800", "two\nlines", "x" * 10_000, "", 1, "1"]
        labels += [-(2**80), "null", "\\"]
        study = make(storage, labels=labels)
        assert list(load_study("s", storage=storage).labels) == labels
        tickets = study.ask(len(labels) * 10, prefetch=0)
        assert {ticket.arm for ticket in tickets} == set(labels)
        study.add_history({label: [0.5] for label in labels})
        assert {(type(t.arm), t.arm) for t in study.trials()} == {(type(x), x) for x in labels}

    def test_any_text_is_a_value_and_never_part_of_a_statement(self, storage: str) -> None:
        # PostgreSQL's indexes have keys of up to 2,704 bytes, compressed
        long = "".join(map(chr, np.random.default_rng(1).integers(0x20000, 0x2A000, MAX_TEXT)))
        for name in (*NASTY, long[:200]):
            study = make(storage, name)
            ticket, other = study.ask(2, worker=name)
            study.tell(study.ask(1, worker=long)[0], 0.5, worker=long)
            study.tell(ticket, 0.5, worker=name)
            assert study.tell(ticket, 0.75, worker=name) is Told.CONFLICT
            study.skip(other, f"{name}\0\ud800")
            study.stop(name)
            again = load_study(name, storage=storage)
            assert [trial.worker for trial in again.trials()] == [long, name]
            assert [conflict.worker for conflict in again.conflicts()] == [name]
            assert again.overview().stopped == name
        assert {one.name for one in list_studies(storage=storage)} == {*NASTY, long[:200]}

    def test_are_listed(self, storage: str) -> None:
        for name in ("b", "a 🦆", "Bc"):
            study = make(storage, name)
        study.tell(study.ask(2)[0], 1.0)
        study.stop("lunch")
        found = list_studies(storage=storage, sort="-created")
        assert [one.name for one in found] == ["Bc", "a 🦆", "b"]
        assert (found[0].handed_out, found[0].results, found[0].stopped) == (2, 1, "lunch")
        assert found[0].question == study.question.numbered()
        assert abs(found[0].created - datetime.now(UTC)) < timedelta(minutes=5)
        page = list_studies(storage=storage, search="b", most=1, skip=1, sort="-created")
        assert ([one.name for one in page], page.total) == (["b"], 2)
        assert list_studies(storage=storage, search="%").total == 0

    def test_the_list_says_how_far_they_are(self, storage: str) -> None:
        busy, held, done = (make(storage, name) for name in ("busy", "held", "done"))
        make(storage, "new").stop()
        busy.tell_many([(ticket, 0.5) for ticket in busy.ask(20, "ann")], worker="ann")
        held.ask(10**6, "ann")
        held.add_history({"a": [0.5]})
        done.run(lambda label: float(label == "a"))
        found = {one.name: one for one in list_studies(storage=storage)}
        states = {name: one.status.value for name, one in found.items()}
        assert states == {
            "busy": "running",
            "held": "waiting",
            "done": "decided",
            "new": "stopped",
        }
        one = found["done"]
        assert (one.decided, one.outliers) == (3, len(done.result().outliers))
        assert (found["busy"].results, found["held"].results) == (20, 1)
        assert 0 < found["busy"].rate <= 20
        assert found["new"].rate == 0.0
        assert found["held"].seen >= found["busy"].seen >= found["new"].created
        checked = busy.verify()
        assert (checked.ok, checked.results, checked.problems) == (True, 20, [])
        frame = busy.to_frame()
        assert list(frame["worker"]) == ["ann"] * 20
        (waiting,) = list_studies(storage=storage, status="waiting")
        assert waiting.name == "held"
        held.release("ann")
        assert list_studies(storage=storage, status="waiting").total == 0
        assert list_studies(storage=storage, sort="-results")[0].name == "done"
        for words in ({"sort": "id"}, {"status": "x"}):
            with pytest.raises(InvalidParameter, match="sort must be one of"):
                list_studies(storage=storage, **words)

    def test_a_name_is_taken_once(self, storage: str) -> None:
        make(storage)
        with pytest.raises(DuplicateStudy, match="'s' already"):
            make(storage, labels=["x", "y"])
        assert tuple(load_study("s", storage=storage).labels) == ("a", "b", "c")

    def test_a_name_that_is_not_there(self, storage: str) -> None:
        make(storage)
        for call in (load_study, delete_study):
            with pytest.raises(UnknownStudy, match="'t'"):
                call("t", storage=storage)

    def test_what_is_no_name(self, storage: str) -> None:
        for name in ("", " ", "x" * 201, "a\nb", ".", "..", 7, None):
            with pytest.raises(InvalidParameter, match="study"):
                make(storage, name)

    def test_a_deleted_one_is_gone(self, storage: str) -> None:
        study = make(storage)
        ticket = study.ask()[0]
        study.add_history({"a": [0.5]}, key="k")
        delete_study("s", storage=storage)
        calls: list[Callable[[], object]] = [
            study.ask,
            lambda: study.tell(ticket, 0.5),
            lambda: study.skip(ticket),
            lambda: study.renew([ticket]),
            lambda: study.add_history({"a": [0.5]}),
            lambda: study.raise_budget(None),
            study.stop,
            study.resume,
            study.overview,
            study.progress,
            study.pulse,
            lambda: study.status,
        ]
        for call in calls:
            with pytest.raises(UnknownStudy):
                call()
        assert list_studies(storage=storage) == []

    def test_its_tickets_are_not_those_of_the_next_of_that_name(self, storage: str) -> None:
        old = make(storage).ask(3)
        make(storage, "other").add_history({"a": [0.5]}, key="k")
        delete_study("s", storage=storage)
        study = make(storage)
        new = study.ask(3)
        calls: list[Callable[[], object]] = [
            lambda: study.tell(old[0], 0.5),
            lambda: study.tell_many([(new[0], 0.5), (old[1].id, 0.5)]),
            lambda: study.skip(old[0]),
            lambda: study.renew([old[0].id]),
        ]
        for call in calls:
            with pytest.raises(InvalidParameter, match="not one of the study 's'"):
                call()
        assert (told(study), study.overview().live) == ([], 3)
        assert study.add_history({"a": [0.5]}, key="k") == 1


class TestTickets:
    def test_all_that_a_step_needs_are_handed_out_once(self, storage: str) -> None:
        study = make(storage)
        first = study.ask(20, "ann", prefetch=0)
        assert first.status is Status.RUNNING
        rest = load_study("s", storage=storage).ask(10**9, "bob", prefetch=0)
        assert (len(rest), rest.status) == (10, Status.WAITING)
        assert len(places([*first, *rest])) == 30
        assert list(map(ticket_number, [*first, *rest])) == list(range(1, 31))
        nothing = study.ask(5, prefetch=0)
        assert (list(nothing), nothing.status, nothing.done) == ([], Status.WAITING, False)
        assert study.ask(5), "pulls of later steps"

    def test_a_call_with_a_key_may_be_repeated(self, storage: str) -> None:
        study = make(storage)
        first = study.ask(3, key="once")
        again = study.ask(3, key="once")
        assert [t.id for t in first] == [t.id for t in again]
        assert [(one.name, one.handed_out) for one in study.workers()] == [(None, 3)]
        study.tell(first[0], 0.5)
        study.skip(first[1])
        assert [t.id for t in study.ask(3, key="once")] == [first[2].id]
        assert {t.id for t in study.ask(3, key="other")}.isdisjoint(t.id for t in first)
        with pytest.raises(InvalidParameter, match="64 characters"):
            study.ask(key="x" * 65)

    def test_skips_and_renewals(self, storage: str) -> None:
        study = make(storage)
        tickets = study.ask(4, "ann")
        assert study.skip(tickets[0], "a reason\0")
        assert not study.skip(tickets[0])
        (before,) = study.workers()
        assert study.renew([*tickets, *tickets], timedelta(minutes=2)) == 3
        (after,) = study.workers()
        assert before.last_seen is not None
        assert after.last_seen is not None
        assert after.last_seen > before.last_seen
        assert study.release("ann", "gone") == 3
        assert study.release("ann") == 0
        assert study.renew(tickets) == 0
        assert study.renew([]) == 0
        study.skip_many([])
        assert places(study.ask(30, prefetch=0)) >= places(tickets)

    def test_who_holds_a_step_up(self, storage: str) -> None:
        study = make(storage)
        absent = study.ask(2, "absent", lease=1800, prefetch=0)
        nameless = study.ask(1, lease=60, prefetch=0)
        study.tell_many([(ticket, 0.5) for ticket in study.ask(27, "ann", prefetch=0)])
        ahead = study.ask(5, "bob")
        assert ahead, "pulls of later steps hold nothing up"
        held = {one.worker: one for one in study.holders()}
        assert {worker: one.tickets for worker, one in held.items()} == {"absent": 2, None: 1}
        left = held["absent"].expires - datetime.now(UTC)
        assert timedelta(minutes=25) < left < timedelta(minutes=35)
        assert timedelta(0) <= datetime.now(UTC) - held["absent"].since < timedelta(minutes=5)
        assert (study.release(None), study.release("absent")) == (1, 2)
        assert study.holders() == []
        again = study.ask(3, "ann", prefetch=0)
        assert places(again) == places([*absent, *nameless])
        assert study.tell(absent[0], 0.25) is Told.RECORDED

    def test_a_lease_that_ended(self, storage: str) -> None:
        """The place is handed out again, and a late result is used at another one."""
        study = make(storage)
        slow, kept = study.ask(1, lease=MOMENT), study.ask(1, lease=timedelta(seconds=MOMENT))
        assert study.renew(kept, 60) == 1
        time.sleep(2 * MOMENT)
        again = [t for t in study.ask(30, prefetch=0) if places([t]) == places(slow)]
        assert len(again) == 1
        assert study.renew(slow) == 0
        assert study.tell(again[0], 1.0) is Told.RECORDED
        assert study.tell(slow[0], 0.0) is Told.RECORDED
        assert study.tell(slow[0], 0.0) is Told.REPEATED
        assert study.tell(slow[0], 0.5) is Told.CONFLICT
        assert [(t.ticket, t.reward) for t in study.trials()] == [
            (again[0].id, 1.0),
            (slow[0].id, 0.0),
        ]
        assert len({trial.place for trial in study.trials()}) == 2
        assert study.verify().ok

    def test_what_is_no_lease(self, storage: str) -> None:
        study = make(storage)
        ticket = study.ask(1, lease=2)[0]
        left = ticket.expires - datetime.now(UTC)
        assert timedelta(minutes=-5) < left < timedelta(minutes=5)
        wrong: tuple[Any, ...] = (0, -1, timedelta(0), timedelta(hours=2), 3601.0, "1m", None)
        for lease in wrong:
            with pytest.raises(InvalidParameter, match="lease"):
                study.ask(1, lease=lease)
            with pytest.raises(InvalidParameter, match="lease"):
                study.renew([ticket], lease)

    def test_what_else_is_refused(self, storage: str) -> None:
        study = make(storage)
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"n": 0}, "n must be"),
            ({"n": 1.5}, "n must be"),
            ({"worker": 5}, "worker must be a text"),
            ({"worker": "w" * 501}, "worker must be a text"),
            ({"worker": "\ud800"}, "worker must be a text"),
            ({"prefetch": -1}, "prefetch"),
        ]
        for words, said in wrong:
            with pytest.raises(InvalidParameter, match=said):
                study.ask(**words)
        assert study.overview().handed_out == 0


class TestResults:
    def test_are_stored_with_their_tickets(self, storage: str) -> None:
        study = make(storage)
        one, two, three = study.ask(3, worker="w1")
        assert study.tell(two, 1.0) is Told.RECORDED
        assert study.tell_many([(three.id, 0.5), (one, 0.25)], worker="w2") == [Told.RECORDED] * 2
        again = load_study("s", storage=storage)
        assert told(again)[0] == (two.id, two.arm, 1.0)
        assert set(told(again)[1:]) == {(one.id, one.arm, 0.25), (three.id, three.arm, 0.5)}
        assert [trial.worker for trial in again.trials()] == [None, "w2", "w2"]
        assert again.verify().ok
        assert again.tell_many([]) == []

    def test_are_stored_to_the_last_bit(self, storage: str) -> None:
        study = make(storage, bounds=(-1e300, 1e300))
        rewards: list[Any] = [0.1 + 0.2, -1e300, 5e-324, np.nextafter(1.0, 2.0), np.float32(0.1)]
        rewards += [True, np.bool_(False), 1, np.int8(0)]
        study.tell_many(list(zip(study.ask(9), rewards, strict=True)))
        stored = sorted(trial.reward for trial in study.trials())
        assert stored == sorted(float(reward) for reward in rewards)

    def test_a_repeated_one_counts_once_and_the_first_of_two_stands(self, storage: str) -> None:
        study = make(storage)
        one, two, three = study.ask(3)
        study.tell(one, 1.0)
        assert study.tell_many(
            [(two, 0.0), (one, 1.0), (two, 0.0), (three, 0.5), (one, 0.25), (two, 0.5)],
            worker="second",
        ) == [
            Told.RECORDED,
            Told.REPEATED,
            Told.REPEATED,
            Told.RECORDED,
            Told.CONFLICT,
            Told.CONFLICT,
        ]
        assert sorted(told(study)) == sorted(
            (t.id, t.arm, reward) for t, reward in ((one, 1.0), (two, 0.0), (three, 0.5))
        )
        found = {(c.ticket, c.arm, c.first, c.second, c.worker) for c in study.conflicts()}
        assert found == {
            (one.id, one.arm, 1.0, 0.25, "second"),
            (two.id, two.arm, 0.0, 0.5, "second"),
        }

    def test_a_few_conflicts_of_a_ticket_are_kept_and_all_are_counted(self, storage: str) -> None:
        study = make(storage)
        one, two = study.ask(2)
        study.tell_many([(one, 1.0), (two, 1.0)])
        for part in range(4):
            wrong = [(one, (part * 50 + i) / 1000) for i in range(50)]
            assert set(study.tell_many(wrong)) == {Told.CONFLICT}
        study.tell(two, 0.5)
        kept = study.conflicts()
        assert [c.second for c in kept] == [0.0, 0.001, 0.002, 0.5]
        assert study.overview().conflicts == 201
        assert study.conflicts(most=2) == kept[:2]
        assert study.conflicts(after=kept[1].number, most=1) == kept[2:3]
        assert study.conflicts(after=kept[-1].number) == []

    def test_pages_of_the_log(self, storage: str) -> None:
        study = make(storage)
        work(study, 40)
        trials = list(study.trials())
        assert [t.number for t in trials] == sorted({t.number for t in trials})
        assert len(trials) == 40
        assert list(study.trials(most=9)) == trials[:9]
        assert list(study.trials(after=trials[8].number, most=9)) == trials[9:18]
        assert list(study.trials(after=trials[-1].number)) == []

    def test_one_of_no_ticket_and_nothing_of_its_batch_is_recorded(self, storage: str) -> None:
        study = make(storage)
        one, two = study.ask(2)
        calls: list[Callable[[Any], object]] = [
            lambda unknown: study.tell_many([(one, 1.0), (unknown, 1.0), (two, 0.0)]),
            lambda unknown: study.tell(unknown, 1.0),
            study.skip,
            lambda unknown: study.renew([unknown]),
        ]
        unknown = ("1", 1, "", "17.0.3.9f86d081884c7d65", "x" * 100, None)
        for call, ticket in product(calls, unknown):
            with pytest.raises(InvalidParameter, match=r"not a ticket|not one of the study"):
                call(ticket)
        assert told(study) == []

    def test_a_ticket_cannot_be_changed(self, storage: str) -> None:
        study = make(storage)
        number, arm, place, proof = study.ask()[0].id.split(".")
        for changed in (
            f"{int(number) + 1}.{arm}.{place}.{proof}",
            f"{number}.{int(arm) + 1}.{place}.{proof}",
            f"{number}.{arm}.{int(place) + 1}.{proof}",
            f"{number}.{arm}.{place}.{proof[::-1]}",
        ):
            with pytest.raises(InvalidParameter, match="not one of the study"):
                study.tell(changed, 1.0)

    def test_what_is_no_reward_and_nothing_of_its_batch_is_recorded(self, storage: str) -> None:
        study = make(storage)
        one, two = study.ask(2)
        wrong: list[Any] = ["0.5", None, [0.5], 1j, float("nan"), 1.01, -0.01, 10**400]
        for reward in wrong:
            with pytest.raises(RewardRejected, match="reward"):
                study.tell_many([(one, 1.0), (two, reward)])
        assert told(study) == []


class TestHistory:
    def test_counts_once_by_its_key_and_costs_no_budget(self, storage: str) -> None:
        study = make(storage, labels=["a", 2, "2"], batch=1, budget=4)
        rewards: dict[Any, Any] = {"a": [0.1, 0.2], 2: [1.0], "2": np.zeros(1)}
        assert study.add_history(rewards, key="k") == 4
        assert study.add_history(rewards, key="k") == 0
        assert study.add_history({}) == 0
        assert sorted((str(t.arm), t.reward) for t in study.trials()) == [
            ("2", 0.0),
            ("2", 1.0),
            ("a", 0.1),
            ("a", 0.2),
        ]
        assert {t.ticket for t in study.trials()} == {None}
        overview = study.overview()
        assert (overview.result.history, overview.result.pulls, overview.told) == (4, 0, 0)
        work(study, 4)
        assert study.status is Status.BUDGET
        assert study.verify().ok

    def test_leaves_the_places_of_tickets_that_are_out(self, storage: str) -> None:
        study = make(storage)
        tickets = study.ask(5)
        study.add_history({"a": [0.5] * 3})
        assert set(study.tell_many([(ticket, 1.0) for ticket in tickets])) == {Told.RECORDED}
        assert {t.place for t in study.trials() if t.ticket is None} == {5, 6, 7}

    @pytest.mark.parametrize("raised", quick_and_long([[60]], [([],), ([None],)]))
    def test_comes_too_late_for_a_budget_once_a_ticket_was_handed_out(
        self, storage: str, raised: list[int | None]
    ) -> None:
        study = make(storage, budget=40)
        assert study.add_history({"a": [0.5]}, key="k") == 1
        for budget in raised:
            study.raise_budget(budget)
        study.skip(study.ask()[0])  # it counts, though it is out no more
        for key in (None, "other"):
            with pytest.raises(InvalidParameter) as refused:
                study.add_history({"a": [0.5]}, key=key)
            assert str(refused.value) == (
                "history comes too late for the study 's', which was created with a budget and has"
                " handed out tickets: add it before the first `ask`, or to a new study."
            )
        assert study.add_history({"a": [0.5]}, key="k") == 0  # a call may still be repeated
        assert len(told(study)) == 1
        assert study.verify().ok

    def test_what_is_refused(self, storage: str) -> None:
        study = make(storage)
        for history in ({"nobody": [0.5]}, {"a": [0.5], 7: [0.5]}):
            with pytest.raises(InvalidParameter, match="not an arm"):
                study.add_history(history)
        for rewards in ([0.5, 2.0], ["x"], [None]):
            with pytest.raises((InvalidParameter, RewardRejected), match="reward"):
                study.add_history({"b": [0.5], "a": rewards})
        with pytest.raises(InvalidParameter, match="key must be a text"):
            study.add_history({"a": [0.5]}, key="k" * 65)
        assert told(study) == []


class TestBudget:
    def test_holds_and_may_grow(self, storage: str) -> None:
        study = make(storage, budget=12, batch=2)
        work(study, 12)
        last = study.ask(5)
        assert (list(last), last.status, study.done) == ([], Status.BUDGET, True)
        with pytest.raises(InvalidParameter, match="budget can only grow, from 12, but got 11"):
            study.raise_budget(11)
        study.raise_budget(12)
        study.raise_budget(20)
        assert study.question.budget == 20
        assert study.status is Status.RUNNING
        work(study, 8)
        assert study.status is Status.BUDGET
        study.raise_budget(None)
        with pytest.raises(InvalidParameter, match="budget is unlimited"):
            study.raise_budget(100)
        work(study, 30)
        again = load_study("s", storage=storage)
        assert again.question.budget is None
        assert_same_answer(again.result(), study.result())

    def test_late_results_do_not_exceed_what_is_used(self, storage: str) -> None:
        study = make(storage, budget=8, batch=2, labels=["a", "b"])
        late = study.ask(8, lease=MOMENT)
        time.sleep(2 * MOMENT)
        study.tell_many([(ticket, 0.5) for ticket in study.ask(8)])
        study.tell_many([(ticket, 0.5) for ticket in late])
        overview = study.overview()
        assert (overview.told, overview.status, study.ask(1)) == (16, Status.BUDGET, [])
        assert overview.result.pulls <= 8
        assert overview.result.pulls + overview.result.unused == 16


class TestStops:
    def test_a_stopped_study_hands_out_nothing_and_takes_results(self, storage: str) -> None:
        study = make(storage)
        ticket = study.ask()[0]
        study.stop("lunch")
        study.stop("x" * 501)
        asked = study.ask(5)
        assert (list(asked), asked.status, asked.done) == ([], Status.STOPPED, True)
        assert study.run(lambda _: 0.5).status is Status.STOPPED
        assert study.tell(ticket, 0.5) is Told.RECORDED
        overview = study.overview()
        assert (overview.status, overview.stopped) == (Status.STOPPED, "x" * 500)
        assert overview.result.status is Status.STOPPED
        assert study.done
        study.resume()
        study.resume()
        assert study.overview().stopped is None
        assert study.ask(1)


class TestWhatIsKnown:
    def test_the_answer_is_that_of_a_search_in_memory(self, storage: str) -> None:
        study = make(storage, algorithm="spade", batch=None, labels=range(30))
        study.add_history({0: [1.0, 0.5], 7: [0.25]})
        rng = np.random.default_rng(1)
        for _ in range(8):
            tickets = study.ask(60)
            order = rng.permutation(len(tickets))
            study.tell_many([(tickets[i], float(rng.random() < 0.4)) for i in order[:50]])
            study.skip_many([tickets[i] for i in order[50:]])
        found = study.result()
        assert found.pulls > 0
        assert_same_answer(found, never_killed(study))
        assert_same_answer(found, load_study("s", storage=storage).result())
        progress = study.progress()
        assert (progress.pulls, progress.n) == (study.overview().told, 30)
        assert progress.undecided == len(found.undecided)

    def test_the_pulse_changes_with_everything(self, storage: str) -> None:
        study = make(storage, budget=90)
        tickets: list[Any] = []
        changes: list[Callable[[], object]] = [
            lambda: study.add_history({"a": [0.1]}),
            lambda: tickets.extend(study.ask(4)),
            lambda: study.tell(tickets[0], 0.5),
            lambda: study.tell(tickets[0], 0.6),
            lambda: study.skip(tickets[1]),
            lambda: study.stop("x"),
            lambda: study.stop("y"),
            study.resume,
            lambda: study.raise_budget(100),
        ]
        pulses = [study.pulse()]
        for change in changes:
            change()
            pulses.append(study.pulse())
            assert study.pulse() == pulses[-1]
            assert pulses[-1] != pulses[-2]

    def test_workers(self, storage: str) -> None:
        study = make(storage)
        tickets = study.ask(6, "ann")
        study.ask(1)
        study.tell(tickets[0], 0.5, worker="ann")
        study.tell_many([(ticket, 0.5) for ticket in tickets[1:4]], worker="ann")
        nobody, ann = study.workers()
        assert (nobody.name, nobody.handed_out, nobody.results, nobody.live) == (None, 1, 0, 1)
        assert (nobody.last_told, nobody.rate) == (None, 0.0)
        assert (ann.name, ann.handed_out, ann.results, ann.live) == ("ann", 6, 4, 2)
        assert 0.0 < ann.rate <= 4.0
        assert ann.last_told is not None
        assert abs(ann.last_told - datetime.now(UTC)) < timedelta(minutes=5)

    def test_very_many_arms(self, storage: str) -> None:
        n = 20_000
        create_study("s", (f"arm {i}" for i in range(n)), k=3, storage=storage)
        study = load_study("s", storage=storage)
        tickets = study.ask(1000)
        assert [ticket.arm for ticket in tickets] == [f"arm {i}" for i in range(1000)]
        assert set(study.tell_many([(ticket, 0.5) for ticket in tickets])) == {Told.RECORDED}
        assert study.add_history({f"arm {n - 1}": [0.5]}) == 1
        assert list(study.trials())[-1].arm == f"arm {n - 1}"


class TestThreads:
    def test_share_a_study(self, storage: str) -> None:
        make(storage)
        studies = [load_study("s", storage=storage) for _ in range(2)]
        seen: list[str] = []
        wrong: list[BaseException] = []

        def worker(number: int) -> None:
            mine = studies[number % 2]
            try:
                for turn in range(10):
                    tickets = mine.ask(3, worker=str(number))
                    assert set(mine.tell_many([(t, 0.5) for t in tickets])) <= {Told.RECORDED}
                    seen.extend(ticket.id for ticket in tickets)
                    if turn % 5 == number % 5:
                        mine.add_history({"a": [0.5, 0.75]})
                        assert list(mine.trials())
                        mine.result()
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=worker, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        trials = list(studies[0].trials())
        assert sorted(t.ticket for t in trials if t.ticket is not None) == sorted(set(seen))
        assert len(seen) == len(set(seen))
        assert len({(trial.arm, trial.place) for trial in trials}) == len(trials)
        assert sum(trial.ticket is None for trial in trials) == 6 * 2 * 2
        assert_same_answer(studies[0].result(), never_killed(studies[1]))
        assert studies[0].verify().ok

    def test_one_that_asks_twice_at_once_gets_the_same_tickets(self, storage: str) -> None:
        """Such as a client whose connection broke while its first call waited for its turn."""
        study = make(storage)
        asked = at_once([lambda key=i % 3: study.ask(2, key=str(key)) for i in range(9)])
        assert [places(one) for one in asked[:3]] == [places(asked[i + 3]) for i in range(3)]
        assert [places(one) for one in asked[:3]] == [places(asked[i + 6]) for i in range(3)]
        assert len(set().union(*map(places, asked))) == 6
        assert study.overview().handed_out == 6

    def test_tell_the_same_ticket_at_once(self, storage: str) -> None:
        study = make(storage)
        tickets = study.ask(4)
        said = at_once(
            [lambda i=i: study.tell_many([(t, i % 2 / 2) for t in tickets]) for i in range(8)]
        )
        for number, ticket in enumerate(tickets):
            (trial,) = [one for one in study.trials() if one.ticket == ticket.id]
            found = [told[number] for told in said]
            assert found.count(Told.RECORDED) == 1
            assert found.count(Told.CONFLICT) == 4
            assert trial.reward == found.index(Told.RECORDED) % 2 / 2
        assert study.overview().conflicts == 16
        assert study.verify().ok


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Return what calls of several threads return."""
    ready = threading.Barrier(len(calls))

    def made(call: Callable[[], Any]) -> Any:
        ready.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as executor:
        return list(executor.map(made, calls))
