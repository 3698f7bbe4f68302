"""Storages that older versions wrote come forward, with all that was paid for."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from helpers import ticket_number
from oddarms import create_study, delete_study, list_studies, load_study, upgrade_storage
from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.search import Result, Search, Status, Ticket
from oddarms.studies import Study, Told, _database, verify
from oddarms.studies._replay import new_search
from postgresql import Server

SCHEMA = """
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
CREATE TABLE studies (
    id {counted}, name TEXT NOT NULL UNIQUE, question TEXT NOT NULL, created FLOAT NOT NULL,
    tickets BIGINT NOT NULL, position BIGINT NOT NULL, taken BIGINT NOT NULL, state {bytes}
);
CREATE TABLE arms (
    study BIGINT NOT NULL, number BIGINT NOT NULL, label TEXT NOT NULL,
    label_key VARCHAR(32) NOT NULL, pulls BIGINT DEFAULT '0' NOT NULL, mean FLOAT,
    decision SMALLINT DEFAULT '0' NOT NULL, PRIMARY KEY (study, number)
);
CREATE INDEX arms_by_label ON arms (study, label_key);
CREATE TABLE tickets (
    study BIGINT NOT NULL, number BIGINT NOT NULL, arm BIGINT NOT NULL, worker TEXT,
    asked FLOAT NOT NULL, expires FLOAT NOT NULL, PRIMARY KEY (study, number)
);
CREATE TABLE leases (
    study BIGINT NOT NULL, ticket BIGINT NOT NULL, arm BIGINT NOT NULL, expires FLOAT NOT NULL,
    PRIMARY KEY (study, ticket)
);
CREATE TABLE results (
    number {counted}, study BIGINT NOT NULL, ticket BIGINT, arm BIGINT NOT NULL,
    reward DOUBLE PRECISION NOT NULL, batch BIGINT, worker TEXT, told FLOAT NOT NULL
);
CREATE UNIQUE INDEX results_by_ticket ON results (study, ticket);
CREATE INDEX results_in_order ON results (study, number);
CREATE TABLE skips (
    study BIGINT NOT NULL, ticket BIGINT NOT NULL, reason TEXT NOT NULL, skipped FLOAT NOT NULL,
    PRIMARY KEY (study, ticket)
);
CREATE TABLE conflicts (
    number {counted}, study BIGINT NOT NULL, ticket BIGINT NOT NULL,
    reward DOUBLE PRECISION NOT NULL, worker TEXT, told FLOAT NOT NULL
)
"""
IMPORTS = """
CREATE TABLE imports (
    study BIGINT NOT NULL, batch BIGINT NOT NULL, key VARCHAR(64), results BIGINT NOT NULL,
    imported FLOAT NOT NULL, PRIMARY KEY (study, batch), UNIQUE (study, key)
)
"""
WITH_PLACES = """
ALTER TABLE tickets ADD COLUMN place BIGINT DEFAULT '0' NOT NULL;
ALTER TABLE leases ADD COLUMN place BIGINT DEFAULT '0' NOT NULL;
ALTER TABLE results ADD COLUMN place BIGINT;
ALTER TABLE studies ADD COLUMN seed TEXT DEFAULT '0' NOT NULL
"""
STATEMENTS = {
    "0001": SCHEMA,
    "0002": f"{SCHEMA};{IMPORTS}",
    "0003": f"{SCHEMA};{IMPORTS};{WITH_PLACES}",
}
DIALECTS = {
    "sqlite": {"counted": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"},
    "postgresql": {"counted": "BIGSERIAL PRIMARY KEY", "bytes": "BYTEA"},
}

LABELS = ["ann", "it's", 7]
TRUTH = {"ann": 0.25, "it's": 0.0, 7: 1.5}
WORDS = {"k": 0.5, "delta": 0.1, "bounds": [0.0, 2.0], "side": "upper", "budget": None}
STUDIES: dict[str, tuple[str, dict[str, Any]]] = {
    "spade": ("spade", {}),
    "rr": ("rr", {"batch": 2}),
    "rounds": ("rr", {"batch": 50}),
    "wrr": ("wrr", {}),
    "ade": ("ade", {}),
}
"""Algorithm and options of the old studies, all of them with the same log."""
QUICK = ("spade", "rounds")
"""Those that need few steps."""
SEED = 7
NOW = 1_790_000_000.0

TICKETS = [0, 0, 1, 1, 2, 2, 0, 1, 2, 1, 0, 2, 0, 1]
"""The arms of tickets 1, 2, ..."""
TOLD: list[tuple[int, float]] = [
    (2, 0.25),  # before ticket 1
    (6, 1.5),
    (3, 0.125),
    (5, 1.75),
    (1, 0.5),
    (8, 0.0),  # instead of 4, which was given back
    # here an import
    (12, 2.0),
    (7, 0.0),
    (4, 0.375),  # after it had been given back
]
IMPORTED_AFTER = 6
IMPORTED: list[tuple[int, float]] = [(0, 0.25), (2, 1.25), (2, 1.0)]
SKIPPED = [4, 10]
LEASED = {1: NOW, 9: NOW, 10: 4e9, 13: 4e9, 14: 4e9}
"""Leases that nobody has dropped yet: one answered, one run out, one given back, two live."""
LIVE = [13, 14]
LATE = [7]
"""The tickets whose results came after their leases."""

PLACES = [0, 1, 0, 1, 0, 1, 2, 1, 2, 2, 3, 2, 3, 3]
"""The places of tickets 1, 2, ... in schema 0003: some were handed out again, and told twice."""


def pull(labels: list[Any]) -> list[float]:
    return [TRUTH[label] for label in labels]


class Old:
    """Writes a storage in SQL, as the old code did."""

    def __init__(self, kind: str, execute: Callable[[str, tuple[Any, ...]], Any]) -> None:
        self._mark = "?" if kind == "sqlite" else "%s"
        self._execute = execute
        self._types = DIALECTS[kind]

    def write(self, version: str) -> None:
        self._placed = version == "0003"
        for statement in STATEMENTS[version].split(";"):
            self._execute(statement.format(**self._types), ())
        self._add("alembic_version", version_num=version)
        for study, name in enumerate(STUDIES, 1):
            self._study(study, name, *STUDIES[name])
        for place, (ticket, reward) in enumerate(TOLD):  # all studies at the same time
            for study in range(1, len(STUDIES) + 1):
                if place == IMPORTED_AFTER and version != "0001":
                    self._import(study)
                self._result(study, ticket, reward)

    def _study(self, study: int, name: str, algorithm: str, options: dict[str, Any]) -> None:
        question = {"n": 3, **WORDS, "algorithm": algorithm, "options": options}
        state = b"an old state that nobody can read"
        saved = {"tickets": len(TICKETS), "position": 3, "taken": 3, "state": state}
        if self._placed:
            question |= {"version": 1, "labels": None, "rule": "sigma"}
            saved |= {"seed": str(SEED)}
        else:
            question |= {"seed": SEED}
        text = json.dumps(question)
        self._add("studies", name=name, question=text, created=NOW - 1.0, **saved)
        for number, label in enumerate(LABELS):
            text = json.dumps(label)
            key = hashlib.sha256(text.encode()).hexdigest()[:32]
            self._add("arms", study=study, number=number, label=text, label_key=key, pulls=1)
        for number, arm in enumerate(TICKETS, 1):
            expires = NOW - 0.25 if number in LATE else LEASED.get(number, NOW)
            place = self._place(number)
            self._add(
                "tickets",
                study=study,
                number=number,
                arm=arm,
                worker=f"w{number % 2}",
                asked=NOW - 0.5,
                expires=expires,
                **place,
            )
            if number in LEASED:
                self._add("leases", study=study, ticket=number, arm=arm, expires=expires, **place)
        for ticket in SKIPPED:
            self._add("skips", study=study, ticket=ticket, reason="no answer", skipped=NOW)
        self._add("conflicts", study=study, ticket=2, reward=1.0, worker="w1", told=NOW)

    def _place(self, ticket: int) -> dict[str, int]:
        return {"place": PLACES[ticket - 1]} if self._placed else {}

    def _result(self, study: int, ticket: int, reward: float) -> None:
        told = {"ticket": ticket, "arm": TICKETS[ticket - 1], "reward": reward, "told": NOW}
        self._add("results", study=study, **told, **self._place(ticket))

    def _import(self, study: int) -> None:
        count = len(IMPORTED)
        self._add("imports", study=study, batch=1, key="old", results=count, imported=NOW)
        for arm, reward in IMPORTED:
            self._add("results", study=study, arm=arm, reward=reward, batch=1, told=NOW)

    def _add(self, table: str, **values: Any) -> None:
        marks = ", ".join([self._mark] * len(values))
        statement = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
        self._execute(statement, tuple(values.values()))


def write_old(storage: str, version: str = "0002") -> str:
    if storage.startswith("postgresql"):
        with psycopg.connect(storage) as server:
            Old("postgresql", server.execute).write(version)
    else:
        with closing(sqlite3.connect(storage)) as file, file:
            Old("sqlite", file.execute).write(version)
    return storage


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "studies.db")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a storage."""
    if request.param == "sqlite":
        return str(tmp_path / "studies.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def old(empty: str) -> str:
    """A storage of schema 0002."""
    return write_old(empty)


@pytest.fixture
def placed(empty: str) -> str:
    """A storage of schema 0003."""
    return write_old(empty, "0003")


def asked_and_told(study: Study) -> Search:
    """Return a search that was told the same rewards, each arm's in the order of recording."""
    algorithm_rng, _ = np.random.default_rng(SEED).spawn(2)
    search = Search(study.question, rng=algorithm_rng)
    tickets: dict[tuple[int, int], Ticket] = {}
    places: Counter[int] = Counter()
    for number, (name, reward) in enumerate(TOLD):
        if number == IMPORTED_AFTER:
            imported: dict[Any, list[float]] = {}
            for arm, value in IMPORTED:
                imported.setdefault(LABELS[arm], []).append(value)
            search.import_rewards(imported)
        arm = TICKETS[name - 1]
        while (arm, places[arm]) not in tickets:
            fresh = search.ask(1, ahead=100.0)
            tickets.update({(ticket.index, ticket.place): ticket for ticket in fresh})
        search.tell(tickets[arm, places[arm]], reward)
        places[arm] += 1
    return search


def told_in_places() -> list[tuple[int, int, float] | None]:
    """Return arm, place and reward of the results of schema 0003, and None for the import."""
    found: list[tuple[int, int, float] | None]
    found = [(TICKETS[ticket - 1], PLACES[ticket - 1], reward) for ticket, reward in TOLD]
    return [*found[:IMPORTED_AFTER], None, *found[IMPORTED_AFTER:]]


def assert_same(found: Result, expected: Result) -> None:
    np.testing.assert_array_equal(found.decisions, expected.decisions)
    np.testing.assert_array_equal(found.pulls_per_arm, expected.pulls_per_arm)
    np.testing.assert_array_equal(found.imported_per_arm, expected.imported_per_arm)
    np.testing.assert_array_equal(found.means, expected.means)
    np.testing.assert_array_equal(found.intervals, expected.intervals)
    assert found.thresholds == expected.thresholds
    assert (found.pulls, found.unused) == (expected.pulls, expected.unused)


def test_an_older_one_is_refused_with_the_way_out(old: str) -> None:
    present = _database.REVISIONS[-1]
    for call in (
        lambda: list_studies(storage=old),
        lambda: load_study("spade", storage=old),
        lambda: create_study("another", 3, storage=old),
        lambda: delete_study("spade", storage=old),
    ):
        with pytest.raises(
            StoreFailed,
            match=rf"older oddarms \(schema 0002, now {present}\): make a copy of it, then run"
            r" `oddarms study upgrade` \(in Python, oddarms.upgrade_storage\)",
        ):
            call()


def numbered(study: Study) -> list[tuple[int | None, float]]:
    """Return the numbers of tickets and the rewards of a study."""
    return [(t.ticket and ticket_number(t.ticket), t.reward) for t in study.trials()]


@pytest.mark.parametrize("version", ["0002", "0003"])
def test_nothing_is_lost(empty: str, version: str) -> None:
    upgrade_storage(storage=write_old(empty, version))
    assert [study.name for study in list_studies(storage=empty)] == sorted(STUDIES)
    for name, (algorithm, options) in STUDIES.items():
        study = load_study(name, storage=empty)
        question = study.question
        assert (question.labels, question.algorithm) == (tuple(LABELS), algorithm)
        assert (question.k, question.delta, question.bounds) == (0.5, 0.1, (0.0, 2.0))
        assert (question.side, question.budget, question.options) == ("upper", None, options)
        assert study.seed == SEED
        trials = list(study.trials())
        imported = [(None, reward) for _, reward in IMPORTED]
        assert numbered(study) == [*TOLD[:IMPORTED_AFTER], *imported, *TOLD[IMPORTED_AFTER:]]
        assert [LABELS.index(t.arm) for t in trials if t.ticket] == [
            TICKETS[t - 1] for t, _ in TOLD
        ]
        assert [ticket_number(t.ticket) for t in trials if t.ticket and t.late] == LATE
        assert [(ticket_number(c.ticket), c.first, c.second) for c in study.conflicts()] == [
            (2, 0.25, 1.0)
        ]
        overview = study.overview()
        assert (overview.told, overview.imported) == (len(TOLD), len(IMPORTED))
        assert (overview.handed_out, overview.live) == (len(TICKETS), 0)
        checked = verify(study)
        assert (checked.problems, checked.results) == ([], len(trials))


def test_the_result_is_that_of_the_same_rewards_in_the_old_order(old: str) -> None:
    upgrade_storage(storage=old)
    for name in STUDIES:
        study = load_study(name, storage=old)
        assert_same(study.result(), asked_and_told(study).result())


def test_results_in_places_give_what_they_gave(placed: str) -> None:
    upgrade_storage(storage=placed)
    for name in STUDIES:
        study = load_study(name, storage=placed)
        expected = new_search(study.question, SEED)
        for told in told_in_places():
            if told is None:
                arms, rewards = zip(*IMPORTED, strict=True)
                expected.take_import(np.array(arms), np.array(rewards))
            else:
                expected.take(*told)
        assert_same(study.result(), expected.result())
        places = [(t.arm, t.place, t.reward) for t in study.trials() if t.ticket]
        assert places == [(LABELS[told[0]], *told[1:]) for told in told_in_places() if told]


def test_places_follow_the_order_of_recording(old: str) -> None:
    upgrade_storage(storage=old)
    study = load_study("spade", storage=old)
    recorded: Counter[Any] = Counter()
    for trial in study.trials():
        if trial.ticket is not None:
            assert trial.place == recorded[trial.arm]
            recorded[trial.arm] += 1
    with study._database.reading() as connection:
        tickets = connection.exec_driver_sql(
            "SELECT number, arm, place FROM tickets WHERE study = 1 ORDER BY number"
        ).all()
    assert len({(arm, place) for _, arm, place in tickets}) == len(tickets), "each has its own"
    behind = {number: place for number, _, place in tickets}
    for live in LIVE:
        assert behind[live] == recorded[LABELS[TICKETS[live - 1]]], "the live ones come first"


@pytest.mark.parametrize("version", ["0002", "0003"])
def test_pulls_that_were_out_are_handed_out_again(empty: str, version: str) -> None:
    """Their tickets had numbers for ids, which could be those of any study."""
    upgrade_storage(storage=write_old(empty, version))
    for name in STUDIES:
        study = load_study(name, storage=empty)
        assert study.overview().live == 0
        out = {(TICKETS[ticket - 1], study_place(study, ticket)) for ticket in LIVE}
        fresh = study.ask(200, ahead=100.0)
        assert out <= {(ticket.index, ticket.place) for ticket in fresh}
        before = numbered(study)
        for ticket in (*LIVE, 1, str(LIVE[0])):
            assert_unknown(study, ticket)
        assert numbered(study) == before
        assert verify(study).problems == []


def assert_unknown(study: Study, ticket: Any) -> None:
    """Assert that an old id is refused."""
    for call in (
        lambda: study.tell(ticket, 0.5),
        lambda: study.tell_many([(ticket, 0.5)] * 2),
        lambda: study.skip(ticket),
        lambda: study.renew([ticket]),
    ):
        with pytest.raises(InvalidParameter, match="ticket must be an id that `ask` has given"):
            call()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in ("rr", "wrr") else ())
        for name in STUDIES
    ],
)
def test_work_goes_on_to_the_end(old: str, name: str) -> None:
    upgrade_storage(storage=old)
    study = load_study(name, storage=old)
    before = list(study.trials())
    fresh = study.ask(5, "new", timedelta(hours=1))
    assert list(map(ticket_number, fresh)) == list(range(15, 15 + len(fresh)))
    places = {(trial.arm, trial.place) for trial in before}
    assert places.isdisjoint((ticket.arm, ticket.place) for ticket in fresh)
    assert before[0].ticket is not None
    assert study.tell(before[0].ticket, before[0].reward) is Told.REPEATED
    known = {LABELS[0]: [0.25], LABELS[2]: [1.25, 1.0]}
    assert study.import_rewards(known, key="old") == 0, "its key is still known"
    assert study.tell_many([(t, TRUTH[t.arm]) for t in fresh]) == [Told.RECORDED] * len(fresh)
    if name in QUICK:
        result = study.run(pull, batch=True)
        assert result.status is Status.DECIDED
        assert result.outliers == [7]
    else:
        for _ in range(5):
            study.tell_many([(ticket, TRUTH[ticket.arm]) for ticket in study.ask(20)])
    assert list(study.trials())[: len(before)] == before
    overview = study.overview()
    assert overview.told > len(TOLD) + len(fresh)
    assert overview.live == 0
    checked = verify(study)
    assert (checked.problems, checked.results) == ([], overview.told + overview.imported)
    assert load_study(name, storage=old).result().to_dict() == overview.result.to_dict()


def study_place(study: Study, ticket: int) -> int:
    with study._database.reading() as connection:
        statement = f"SELECT place FROM tickets WHERE study = {study._number} AND number = {ticket}"
        return int(connection.exec_driver_sql(statement).scalar_one())


def test_a_second_time_changes_nothing(old: str) -> None:
    upgrade_storage(storage=old)
    before = {name: list(load_study(name, storage=old).trials()) for name in STUDIES}
    upgrade_storage(storage=old)
    after = {name: list(load_study(name, storage=old).trials()) for name in STUDIES}
    assert after == before


def test_from_the_first_schema_too(file: str) -> None:
    write_old(file, "0001")
    with pytest.raises(StoreFailed, match="schema 0001"):
        load_study("rr", storage=file)
    upgrade_storage(storage=file)
    study = load_study("rounds", storage=file)
    assert numbered(study) == TOLD
    assert study.import_rewards({7: [0.5, 1.0]}, key="new in 0002") == 2
    assert verify(study).problems == []
    assert study.skip_worker("w1") + study.skip_worker("w0") == 0, "nobody has any"
    assert study.run(pull, batch=True).outliers == [7]


def test_an_upgrade_that_fails_leaves_the_old_one(file: str) -> None:
    write_old(file, "0001")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE imports (x)")  # in the way
        before = "\n".join(connection.iterdump())
    with pytest.raises(StoreFailed, match="imports"):
        upgrade_storage(storage=file)
    with closing(sqlite3.connect(file)) as connection:
        assert "\n".join(connection.iterdump()) == before
        connection.execute("DROP TABLE imports")
    upgrade_storage(storage=file)
    assert len(list(load_study("spade", storage=file).trials())) == len(TOLD)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_a_long_log_comes_forward_quickly(
    kind: str, file: str, request: pytest.FixtureRequest
) -> None:
    """Many results and many tickets that were lost must not be compared each with each."""
    many = 20_000
    tickets = [(1, number, number % 3, NOW, NOW) for number in range(15, many)]
    results = [(1, number, number % 3, 0.5, NOW) for number in range(15, many, 2)]
    add_tickets = "INSERT INTO tickets (study, number, arm, asked, expires) VALUES ({})"
    add_results = "INSERT INTO results (study, ticket, arm, reward, told) VALUES ({})"
    counted = f"UPDATE studies SET tickets = {many - 1} WHERE id = 1"
    if kind == "sqlite":
        write_old(file)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.executemany(add_tickets.format("?, ?, ?, ?, ?"), tickets)
            connection.executemany(add_results.format("?, ?, ?, ?, ?"), results)
            connection.execute(counted)
    else:
        server: Server = request.getfixturevalue("postgresql")
        file = write_old(server.new_database())
        with psycopg.connect(file) as connection, connection.cursor() as cursor:
            cursor.executemany(add_tickets.format("%s, %s, %s, %s, %s"), tickets)
            cursor.executemany(add_results.format("%s, %s, %s, %s, %s"), results)
            cursor.execute(counted)
    started = time.process_time()
    upgrade_storage(storage=file)
    if kind == "sqlite":
        assert time.process_time() - started < 10.0  # minutes, if each with each
    assert verify(load_study("spade", storage=file)).problems == []
