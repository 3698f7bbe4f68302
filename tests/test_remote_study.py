"""A study on a server is the same study: what is tested here holds for both."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from oddarms import (
    Question,
    Result,
    arms,
    create_study,
    delete_study,
    find,
    list_studies,
    load_study,
)
from oddarms.errors import (
    DuplicateStudy,
    InvalidParameter,
    RewardRejected,
    StorageFailed,
    UnknownOption,
    UnknownStudy,
)
from oddarms.search import Status
from oddarms.search._alike import alike
from oddarms.server._limits import ADMIN_BYTES, GUESSES, MOST_VALUES, WORKER_BYTES
from oddarms.studies import Study, Told, verify
from oddarms.studies._imports import MARK, PART_SIZE, in_parts
from oddarms.studies._limits import (
    AT_A_TIME,
    MOST_RESULTS,
    MOST_TEXT,
    MOST_TICKET_ID,
    MOST_TICKETS,
)
from oddarms.studies._remote_study import RemoteStudy
from oddarms.studies._study import StoredStudy
from postgresql import Server
from servers import Served, served
from small_studies import make, work

HOSTILE = ["a/b", "50%", "x?y#z", "..hidden", "é𝄞", "<script>", "a b", "%2F", "\\", "';--"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("server") / "studies.db") as server:
        yield server


@pytest.fixture(scope="module")
def server_on_postgresql(postgresql: Server) -> Iterator[Served]:
    with served(postgresql.new_database()) as server:
        yield server


@pytest.fixture(params=["file", "server", "server_on_postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield str(tmp_path / "studies.db")
        return
    server: Served = request.getfixturevalue(request.param)
    yield server.address
    for summary in list_studies(storage=server.address):
        delete_study(summary.name, storage=server.address)


def test_each_is_what_it_says(server: Served, tmp_path: Path) -> None:
    here, there = make(tmp_path / "here.db"), make(server.address, "kind")
    assert isinstance(here, StoredStudy)
    assert isinstance(there, RemoteStudy)
    assert isinstance(there, Study)
    assert there.storage == server.address
    assert repr(there) == f"Study('kind', 3 arms, storage='{server.address}')"
    delete_study("kind", storage=server.address)


class TestAskAndTell:
    def test_what_is_told_is_recorded_once(self, storage: str) -> None:
        study = make(storage)
        first, second = study.ask(2, "ann", timedelta(minutes=1))
        assert first.arm == "a"
        assert first.expires is not None
        assert study.tell(first, 1.0) is Told.RECORDED
        assert study.tell(first.id, 1) is Told.REPEATED
        assert study.tell(first, 0.5, worker="bob") is Told.CONFLICT
        assert study.tell_many([(second, True), (second, True)]) == [Told.RECORDED, Told.REPEATED]
        assert study.tell_many([]) == []
        (conflict,) = study.conflicts()
        assert (conflict.first, conflict.second, conflict.worker) == (1.0, 0.5, "bob")
        assert [trial.reward for trial in study.trials()] == [1.0, 1.0]
        assert [trial.worker for trial in study.trials()] == ["ann", "ann"]

    def test_a_call_with_a_key_may_be_repeated(self, storage: str) -> None:
        study = make(storage)
        first = study.ask(3, key="once")
        again = study.ask(3, key="once")
        assert [t.id for t in first] == [t.id for t in again]
        study.tell(first[0], 0.5)
        study.skip(first[1])
        assert [t.id for t in study.ask(3, key="once")] == [first[2].id]
        assert {t.id for t in study.ask(3, key="other")}.isdisjoint(t.id for t in first)
        with pytest.raises(InvalidParameter, match="64 characters"):
            study.ask(key="x" * 65)

    def test_skips_and_renewals(self, storage: str) -> None:
        study = make(storage)
        tickets = study.ask(4, "ann")
        study.skip(tickets[0], "a reason\0")
        assert study.renew(tickets, timedelta(minutes=2)) == 3
        assert study.skip_worker("ann", "gone") == 3
        assert study.skip_worker("ann") == 0
        assert study.renew(tickets) == 0
        assert study.renew([]) == 0
        assert study.ask(1)[0].place == 0

    def test_refusals_are_the_same(self, storage: str) -> None:
        study = make(storage)
        ticket = study.ask()[0]
        with pytest.raises(RewardRejected, match=r"within the bounds \[0, 1\] but got 3") as caught:
            study.tell(ticket, 3.0)
        assert caught.value.outside
        for reward in (None, "x", float("nan")):
            with pytest.raises(RewardRejected):
                study.tell(ticket, reward)  # type: ignore[arg-type]
        other = make(storage, "other").ask()[0]
        with pytest.raises(InvalidParameter, match="of another study"):
            study.tell(other, 0.5)
        for bad in ("17", "x" * 100, 17):
            with pytest.raises(InvalidParameter, match="ticket must be an id"):
                study.tell(bad, 0.5)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="n must be"):
            study.ask(0)
        with pytest.raises(InvalidParameter, match="lease must be"):
            study.ask(lease=timedelta(0))
        with pytest.raises(InvalidParameter, match="worker must be"):
            study.ask(worker="x" * 1001)
        assert list(study.trials()) == []

    def test_imports(self, storage: str) -> None:
        study = make(storage, labels=["a", 2, "2"])
        assert study.import_rewards({"a": [0.1, 0.2], 2: [1.0], "2": [0.0]}, key="k") == 4
        assert study.import_rewards({"a": [0.1, 0.2], 2: [1.0], "2": [0.0]}, key="k") == 0
        with pytest.raises(InvalidParameter, match="are others"):
            study.import_rewards({"a": [0.3]}, key="k")
        with pytest.raises(InvalidParameter, match="arm must be one"):
            study.import_rewards({"nobody": [0.3]})
        assert study.import_rewards(np.zeros((3, 2)), labels=["a", 2, "2"]) == 6
        assert study.overview().imported == 10
        assert study.import_rewards({}) == 0

    def test_an_import_in_parts(self, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("oddarms.studies._imports.PART_SIZE", 150)
        study = make(storage)
        rewards = {"c": [0.3] * 2, "a": [0.1] * 4, "b": [0.2]}
        assert study.import_rewards(rewards, key="k") == 7
        assert study.import_rewards(rewards, key="k") == 0
        assert study.import_rewards({label: rewards[label] for label in "abc"}, key="k") == 0
        assert sorted(trial.arm for trial in study.trials()) == [*"aaaabcc"]
        with pytest.raises(InvalidParameter, match="arm must be one"):
            study.import_rewards({"a": [0.1] * 9, "nobody": [0.1]})
        assert verify(study).ok

    @pytest.mark.parametrize(
        "others",
        [
            {"b": [0.9]},
            {"a": [0.1] * 4},
            {"a": [0.1] * 4, "b": [0.2], "c": [0.3] * 9},
            {"a": [0.1] * 3 + [0.2], "b": [0.2], "c": [0.3] * 2},
        ],
    )
    @pytest.mark.parametrize("large_first", [True, False])
    def test_others_are_refused_wherever_an_import_is_divided(
        self,
        storage: str,
        monkeypatch: pytest.MonkeyPatch,
        others: dict[str, list[float]],
        large_first: bool,
    ) -> None:
        monkeypatch.setattr("oddarms.studies._imports.PART_SIZE", 150)
        study = make(storage)
        rewards = {"a": [0.1] * 4, "b": [0.2], "c": [0.3] * 2}
        first, second = (rewards, others) if large_first else (others, rewards)
        count = study.import_rewards(first, key="k")
        with pytest.raises(InvalidParameter, match="the key 'k' before but are others"):
            study.import_rewards(second, key="k")
        assert study.overview().imported == count

    @pytest.mark.parametrize("lost_at", [0, 1, 2])
    def test_an_import_that_broke_off_is_completed_once(
        self, server: Served, monkeypatch: pytest.MonkeyPatch, lost_at: int
    ) -> None:
        study = make(server.address, "parts")
        rewards = {"c": [0.3] * 2, "a": [0.1] * 4, "b": [0.2]}
        post, calls = RemoteStudy._post, iter(range(100))

        def breaks_off(self: RemoteStudy, what: str, body: dict[str, Any]) -> Any:
            if next(calls) == lost_at:
                raise StorageFailed("the server went away.", passing=True)
            return post(self, what, body)

        with monkeypatch.context() as patch:
            patch.setattr("oddarms.studies._imports.PART_SIZE", 150)
            patch.setattr(RemoteStudy, "_post", breaks_off)
            with pytest.raises(StorageFailed):
                study.import_rewards(rewards, key="k")
        before = study.overview().imported
        assert before < 7
        monkeypatch.setattr("oddarms.studies._imports.PART_SIZE", 210)  # divided elsewhere
        assert study.import_rewards(rewards, key="k") == 7 - before
        monkeypatch.undo()
        assert study.import_rewards(rewards, key="k") == 0
        told = sorted((trial.arm, trial.reward) for trial in study.trials())
        assert told == [("a", 0.1)] * 4 + [("b", 0.2)] + [("c", 0.3)] * 2
        assert verify(study).ok
        delete_study("parts", storage=server.address)

    def test_what_was_imported_where_the_storage_is_counts_once(
        self, server: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(server.address, "both")
        here = server.state.storage.load("both")
        rewards = {"a": [0.1] * 4, "b": [0.2], "c": [0.3] * 2}
        assert here.import_rewards(rewards, key="k") == 7
        monkeypatch.setattr("oddarms.studies._imports.PART_SIZE", 150)
        assert study.import_rewards(rewards, key="k") == 0
        assert study.import_rewards(rewards, key="other") == 7
        assert here.import_rewards(rewards, key="other") == 0
        delete_study("both", storage=server.address)

    def test_parts_of_an_older_version_are_not_counted_twice(self, storage: str) -> None:
        study = make(storage)
        key = hashlib.sha256(b"0:k").hexdigest()[:40]
        assert study.import_rewards({"a": [0.1] * 4}, key=key) == 4
        with pytest.raises(InvalidParameter, match="are others"):
            study.import_rewards({"a": [0.1] * 4, "b": [0.2]}, key="k")

    def test_what_a_client_sends_is_what_a_server_takes(self) -> None:
        assert AT_A_TIME <= MOST_RESULTS
        assert AT_A_TIME <= MOST_TICKETS
        assert AT_A_TIME * (MOST_TICKET_ID + 30) + 2 * MOST_TEXT < WORKER_BYTES
        assert PART_SIZE + 2 * MOST_TEXT < ADMIN_BYTES
        assert PART_SIZE / (1 + MARK) + MOST_TEXT < MOST_VALUES

    def test_a_reason_is_as_long_as_it_may_be(self, storage: str) -> None:
        study = make(storage)
        study.stop("x" * (MOST_TEXT + 1))
        assert study.overview().stopped == "x" * MOST_TEXT
        study.resume()
        study.skip_many(study.ask(1, "ann"), "y" * (MOST_TEXT + 1))
        study.ask(1, "ann")
        assert study.skip_worker("ann", "y" * (MOST_TEXT + 1)) == 1

    def test_long_labels_are_sent_in_parts_that_the_server_takes(self, server: Served) -> None:
        labels = [f"{arm:04d}" + "\u1234,[" * 1200 for arm in range(1900)]
        rewards = {label: [0.5, 0.25] for label in labels}
        sizes = []
        for part in in_parts(rewards):
            text = json.dumps({"rewards": part})
            assert sum(map(text.count, ",[{")) < MOST_VALUES
            sizes.append(len(text))
        assert len(sizes) > 1
        assert max(sizes) < ADMIN_BYTES
        study = make(str(server.state.storage.database.name), "long", labels=labels)
        there = load_study("long", storage=server.address)
        assert there.import_rewards(rewards, key="k") == 3800
        assert study.overview().imported == 3800
        delete_study("long", storage=server.address)

    def test_many_results_at_once(self, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("oddarms.studies._remote_study.AT_A_TIME", 7)
        study = make(storage)
        work(study, 40)
        assert [trial.number for trial in study.trials(most=9)] == [
            trial.number for trial in list(study.trials())[:9]
        ]
        last = list(study.trials())[-1]
        assert list(study.trials(after=last.number)) == []
        assert len(list(study.trials())) == 40


class TestStops:
    def test_a_stopped_study_hands_out_nothing_and_takes_results(self, storage: str) -> None:
        study = make(storage)
        ticket = study.ask()[0]
        study.stop("lunch")
        study.stop("a long lunch")
        asked = study.ask(5)
        assert (list(asked), asked.status, asked.done) == ([], Status.STOPPED, True)
        assert study.tell(ticket, 0.5) is Told.RECORDED
        overview = study.overview()
        assert (overview.status, overview.stopped) == (Status.STOPPED, "a long lunch")
        assert overview.result.status is Status.STOPPED
        assert study.done
        assert study.wait(1.0)
        assert [one.stopped for one in list_studies(storage=storage)] == ["a long lunch"]
        study.resume()
        study.resume()
        assert study.overview().stopped is None
        assert study.ask(1)
        assert verify(study).ok

    def test_run_ends(self, storage: str) -> None:
        study = make(storage)
        other = load_study("s", storage=storage)
        calls = 0

        def pull(_: object) -> float:
            nonlocal calls
            calls += 1
            if calls == 5:
                other.stop()
            return 0.5

        result = study.run(pull)
        assert result.status is Status.STOPPED
        assert 5 <= result.pulls + result.unused <= 200
        study.resume()
        assert study.status is Status.RUNNING

    def test_one_that_is_decided_stays_so(self, storage: str) -> None:
        study = make(storage)
        study.run(lambda label: float(label == "c"))
        study.stop()
        assert study.status is Status.DECIDED


class TestWhatIsKnown:
    def test_the_pulse_changes_with_everything(self, storage: str) -> None:
        study = make(storage)
        pulses = [study.pulse()]
        assert study.pulse() == pulses[0]

        def changed() -> None:
            assert study.pulse() not in pulses
            pulses.append(study.pulse())
            assert study.pulse() == pulses[-1]

        tickets = study.ask(4)
        changed()
        study.tell(tickets[0], 0.5)
        changed()
        study.tell(tickets[0], 0.6)
        changed()
        study.skip(tickets[1])
        changed()
        study.import_rewards({"a": [0.1]})
        changed()
        study.stop("x")
        changed()
        study.resume()
        study.revise(budget=10_000) if study.question.budget else study.stop("y")
        changed()

    def test_who_has_worked(self, storage: str) -> None:
        study = make(storage)
        ann, bob = study.ask(3, "ann"), study.ask(2, "bob")
        study.ask(1)
        study.tell_many([(ticket, 0.5) for ticket in ann])
        study.tell(bob[0], 0.5, worker="ann")
        found = {one.name: one for one in study.workers()}
        assert list(found) == [None, "ann", "bob"]
        counts = {name: (one.handed_out, one.pulls, one.live) for name, one in found.items()}
        assert counts == {None: (1, 0, 1), "ann": (3, 4, 0), "bob": (2, 0, 1)}
        assert found["bob"].last_told is None
        assert found["ann"].last_seen == found["ann"].last_told
        study.tell(bob[1], 0.5)
        again = {one.name: one for one in study.workers()}
        assert again["bob"].pulls == 1
        assert again["ann"] == found["ann"]
        assert load_study("s", storage=storage).workers() == study.workers()

    def test_the_result_is_the_same_document(self, storage: str) -> None:
        study = create_study("s", ["a", "b", 3], k=0.5, side="both", rng=1, storage=storage)
        work(study, 120)
        result = study.result()
        assert result.question.labels == ("a", "b", 3)
        whole = json.loads(json.dumps(result.to_dict(snapshots=True)))
        assert Result.from_dict(whole).to_dict(snapshots=True) == whole
        overview = study.overview()
        assert (overview.told, overview.handed_out, overview.live) == (120, 120, 0)
        assert study.progress().pulls == 120

    def test_a_decided_result_is_whole(self, storage: str, tmp_path: Path) -> None:
        question = Question(["a", "b", "c", "d"], k=1)
        here = create_study("s", question, rng=1, storage=tmp_path / "here.db")
        study = create_study("s", question, rng=1, storage=storage)
        for one in (here, study):
            one.run(lambda label: float(label == "c"))
        result, expected = study.result(), here.result()
        assert result.complete
        for field in fields(Result):
            assert alike(getattr(result, field.name), getattr(expected, field.name)), field.name

    def test_decisions_are_reported(self, storage: str) -> None:
        study = make(storage)
        news: list[Any] = []
        study.on_decision(lambda _, decided: news.extend(decided))
        study.run(lambda label: float(label == "c"))
        assert sorted(label for label, _ in news) == ["a", "b", "c"]

    def test_a_slow_thread_lets_no_arm_be_reported_twice(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(storage)
        news: list[Any] = []
        study.on_decision(lambda _, decided: news.extend(decided))
        slow: list[tuple[Any, ...]] = []
        with monkeypatch.context() as patch:
            patch.setattr(study, "_report", lambda *arguments: slow.append(arguments))
            study.result()
        study.run(lambda label: float(label == "c"))
        assert len(news) == 3
        study._report(*slow[0])
        study.result()
        assert len(news) == 3

    def test_a_callback_that_raises_costs_no_ticket(self, storage: str) -> None:
        study = make(storage)

        def fails(*_: object) -> None:
            raise RuntimeError("no disk")

        study.on_decision(fails)

        def work_on() -> None:
            while tickets := study.ask(30):
                study.tell_many([(ticket, float(ticket.arm == "c")) for ticket in tickets])

        with pytest.raises(RuntimeError, match="no disk"):
            work_on()
        assert load_study("s", storage=storage).overview().live == 0

    def test_a_data_frame(self, storage: str) -> None:
        study = make(storage)
        work(study, 7)
        assert len(study.to_frame()) == 7


class TestStudies:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_any_name(self, storage: str, name: str) -> None:
        study = make(storage, name)
        study.tell(study.ask()[0], 0.5)
        assert load_study(name, storage=storage).progress().pulls == 1
        assert [one.name for one in list_studies(storage=storage)] == [name]
        delete_study(name, storage=storage)
        with pytest.raises(UnknownStudy):
            load_study(name, storage=storage)

    def test_names_that_are_none(self, storage: str) -> None:
        for name in ("", " ", "x" * 201, "a\nb", ".", ".."):
            with pytest.raises(InvalidParameter, match="name must"):
                make(storage, name)
            with pytest.raises(InvalidParameter, match="name must"):
                load_study(name, storage=storage)

    def test_a_name_is_taken_once(self, storage: str) -> None:
        study = make(storage)
        with pytest.raises(DuplicateStudy):
            make(storage)
        with pytest.raises(UnknownOption):
            make(storage, "t", nonsense=1)
        delete_study("s", storage=storage)
        with pytest.raises(UnknownStudy):
            study.ask()
        again = make(storage)
        assert again.ask()

    def test_pages_of_a_list(self, storage: str) -> None:
        for name in ("Alpha", "alphabet", "beta_1", "betaX1"):
            make(storage, name)
        found = list_studies(storage=storage, search="ALPHA")
        assert ([one.name for one in found], found.total) == (["Alpha", "alphabet"], 2)
        assert [one.name for one in list_studies(storage=storage, search="a_1")] == ["beta_1"]
        page = list_studies(storage=storage, most=1, skip=1, newest=True)
        assert ([one.name for one in page], page.total) == (["beta_1"], 4)
        with pytest.raises(InvalidParameter, match="most"):
            list_studies(storage=storage, most=0)

    def test_a_large_seed_and_a_question_with_a_control(self, storage: str) -> None:
        study = create_study(
            "c", ["a", "b"], rng=2**70, storage=storage, rule="control", control="b"
        )
        assert load_study("c", storage=storage).seed == 2**70 == study.seed
        assert load_study("c", storage=storage).question == study.question

    def test_find_gives_the_same_answer(self, storage: str, tmp_path: Path) -> None:
        crowd = arms.Bernoulli([0.1, 0.2, 0.9], labels="abc")
        words: dict[str, Any] = {"k": 1, "algorithm": "rr", "batch": 10, "rng": 3, "budget": 300}
        there = find(crowd, storage=storage, name="f", **words)
        here = find(crowd, storage=tmp_path / "here.db", name="f", **words)
        assert there.to_dict() == here.to_dict()
        again = find(crowd, storage=storage, name="f", **words)
        assert again.to_dict() == there.to_dict()


class TestConnections:
    def test_threads_share_one(self, storage: str) -> None:
        study = make(storage, labels=range(50), batch=20)
        seen: list[str] = []

        def ask_and_tell() -> None:
            for _ in range(5):
                tickets = study.ask(4)
                seen.extend(ticket.id for ticket in tickets)
                study.tell_many([(ticket, 0.5) for ticket in tickets])

        threads = [threading.Thread(target=ask_and_tell) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == len(set(seen)) == 80
        assert study.overview().told == 80

    def test_a_forked_process_has_its_own(self, server: Served) -> None:
        study = make(server.address, "forked")
        ticket, other = study.ask(2)
        process = multiprocessing.get_context("fork").Process(
            target=lambda: os._exit(int(study.tell(ticket, 0.5) is not Told.RECORDED))
        )
        process.start()
        process.join(60)
        assert process.exitcode == 0
        assert study.tell(other, 0.5) is Told.RECORDED
        assert study.overview().told == 2
        delete_study("forked", storage=server.address)

    def test_nobody_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ODDARMS_TOKEN", "x" * 40)
        with pytest.raises(StorageFailed, match="cannot be reached") as caught:
            load_study("s", storage="http://127.0.0.1:9")
        assert caught.value.passing

    def test_tokens(self, server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("ODDARMS_TOKEN")
        with pytest.raises(InvalidParameter, match="ODDARMS_TOKEN must be set"):
            list_studies(storage=server.address)
        file = tmp_path / "token"
        monkeypatch.setenv("ODDARMS_TOKEN_FILE", str(file))
        with pytest.raises(InvalidParameter, match="ODDARMS_TOKEN_FILE must name a file"):
            list_studies(storage=server.address)
        file.write_text(f"{server.token}\n")
        assert list_studies(storage=server.address) == []
        secret = "s3cret" * 6
        monkeypatch.setenv("ODDARMS_TOKEN", secret)
        with pytest.raises(StorageFailed, match="a token of this server") as caught:
            list_studies(storage=server.address)
        assert secret not in str(caught.value)
        assert not caught.value.passing

    def test_a_wrong_token_stays_wrong_however_often_it_is_tried(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr("oddarms.studies._connection.AGAIN_SECONDS", 0.0)
        with served(tmp_path / "studies.db") as server, monkeypatch.context() as patch:
            patch.setenv("ODDARMS_TOKEN", "revoked" * 6)
            for _ in range(GUESSES + 2):
                with pytest.raises(StorageFailed, match="a token of this server") as caught:
                    list_studies(storage=server.address)
                assert not caught.value.passing

    @pytest.mark.parametrize(
        "address", ["http://", "http://user:secret@host", "http://host?x=1", "http://host:port"]
    )
    def test_addresses(self, address: str) -> None:
        with pytest.raises(InvalidParameter, match="http://HOST:PORT") as caught:
            list_studies(storage=address)
        assert "secret" not in str(caught.value)

    def test_what_is_no_server_of_ours(self, server: Served) -> None:
        with pytest.raises(StorageFailed, match=r"nothing at this address|no server"):
            list_studies(storage=f"{server.address}/elsewhere")

    def test_a_lost_answer_costs_no_ticket(
        self, server: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(server.address, "lost")
        answers = LostAnswers(monkeypatch, 3)
        with pytest.raises(StorageFailed, match="may have been recorded") as caught:
            study.ask(3)
        assert caught.value.passing
        tickets = study.ask(3)
        assert (len(tickets), study.overview().handed_out) == (3, 3)
        answers.left = 1
        assert study.tell(tickets[0], 0.5) is Told.REPEATED
        delete_study("lost", storage=server.address)

    def test_a_key_of_the_caller_is_no_other_call_s(
        self, server: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(server.address, "own")
        LostAnswers(monkeypatch, 2)
        with pytest.raises(StorageFailed, match="may have been recorded"):
            study.ask(3, key="mine")
        first = study.ask(3, key="mine")
        others = study.ask(3)
        assert {one.id for one in first}.isdisjoint(one.id for one in others)
        assert study.overview().handed_out == 6
        delete_study("own", storage=server.address)


class LostAnswers:
    """Lets a server do what it is asked, and loses so many of its answers to workers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
        self.left = left
        send = httpx.Client.send

        def loses(client: httpx.Client, *arguments: Any, **options: Any) -> Any:
            answer = send(client, *arguments, **options)
            if arguments[0].url.path.endswith(("/ask", "/tell")) and self.left:
                self.left -= 1
                raise httpx.ReadError("the connection is gone")
            return answer

        monkeypatch.setattr(httpx.Client, "send", loses)
