"""Algorithms by name: ours, registered ones and entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from oddarms import Question, Search, find
from oddarms.algorithms import Algorithm, _registry, available, create, get_algorithm, register
from oddarms.algorithms._ade import ADE
from oddarms.algorithms._round_robin import RR
from oddarms.algorithms._two_sided import TwoSided
from oddarms.arms import Bernoulli
from oddarms.errors import DuplicateAlgorithm, InvalidParameter, UnknownAlgorithm, UnknownOption
from oddarms.rules import Sigma

Install = Callable[..., None]


@pytest.fixture(autouse=True)
def _fresh_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_registry, "_registered", {})
    _registry._plugins.cache_clear()
    yield
    _registry._plugins.cache_clear()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes entry points (name, value) appear installed."""

    def points(*pairs: tuple[str, str]) -> None:
        found = [EntryPoint(name, value, _registry.GROUP) for name, value in pairs]

        def entry_points(group: str) -> list[EntryPoint]:
            assert group == "oddarms.algorithms"
            return found

        monkeypatch.setattr(_registry, "entry_points", entry_points)
        _registry._plugins.cache_clear()

    return points


class Mine(RR):
    """An algorithm of a third party."""


def test_ours_are_available() -> None:
    assert {"ade", "rr", "wrr"} <= set(available())
    assert list(available()) == sorted(available())
    assert get_algorithm("ade") is ADE


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownAlgorithm, match=r"no algorithm 'best': choose one of ade, .*wrr"):
        get_algorithm("best")
    with pytest.raises(UnknownAlgorithm):
        find(Bernoulli([0.1, 0.2]), k=1, delta=0.1, algorithm="best")


class TestRegister:
    def test_a_name_of_one_s_own(self) -> None:
        register("mine", Mine)
        register("mine", Mine)  # again is harmless
        assert "mine" in available()
        result = find(Bernoulli([0.0, 1.0]), k=0, delta=0.1, algorithm="mine", batch=50)
        assert (result.outliers, result.algorithm) == ([1], "mine")

    @pytest.mark.parametrize("name", ["ade", "taken"])
    def test_a_name_is_given_once(self, name: str) -> None:
        register("taken", RR)
        with pytest.raises(
            DuplicateAlgorithm,
            match=f"An algorithm '{name}' is registered already",
        ):
            register(name, Mine)


class TestEntryPoints:
    def test_they_are_listed_without_being_imported(self, install: Install) -> None:
        install(("theirs", "a_package_that_is_not_there:Algorithm"))
        assert "theirs" in available()
        with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
            get_algorithm("theirs")

    def test_they_are_loaded_by_name(self, install: Install) -> None:
        install(("theirs", f"{__name__}:Mine"))
        assert get_algorithm("theirs").__name__ == "Mine"

    @pytest.mark.parametrize(
        ("points", "message"),
        [
            ([("new", "one:A"), ("new", "two:B")], "'new', one:A and two:B"),
            ([("ade", "one:A")], r"'ade', oddarms.algorithms._ade:ADE and one:A"),
        ],
    )
    def test_a_collision_names_both(
        self, install: Install, points: list[tuple[str, str]], message: str
    ) -> None:
        install(*points)
        with pytest.raises(DuplicateAlgorithm, match=message):
            available()

    def test_the_same_entry_point_twice_is_one(self, install: Install) -> None:
        install(("new", "a_package:A"), ("new", "a_package:A"))
        assert available().count("new") == 1

    def test_registering_over_an_entry_point(self, install: Install) -> None:
        install(("theirs", "a_package_that_is_not_there:A"))
        with pytest.raises(DuplicateAlgorithm, match="'theirs' is registered already"):
            register("theirs", Mine)


class TestCreate:
    def make(
        self, algorithm: str | type[Algorithm] = "rr", n: int = 3, **changes: Any
    ) -> Algorithm:
        arguments = {"rule": Sigma(k=1.0), "delta": 0.1, "rng": np.random.default_rng(0), **changes}
        return create(algorithm, n, **arguments)

    def test_by_name_and_by_class(self) -> None:
        assert type(self.make("rr")) is RR
        assert type(self.make(Mine)) is Mine

    def test_both_sides_split_delta(self) -> None:
        both = self.make(side="both", batch=3)
        assert isinstance(both, TwoSided)
        assert (both.upper.delta, both.lower.delta) == (0.05, 0.05)
        assert both.upper.batch == both.lower.batch == 3  # type: ignore[attr-defined]

    def test_an_algorithm_that_handles_both_sides_is_asked_to(self) -> None:
        class Both(RR):
            handles_both_sides = True

            def __init__(self, n: int, *, side: str = "upper", **rest: Any) -> None:
                super().__init__(n, **rest)
                self.side = side

        assert self.make(Both, side="both").side == "both"  # type: ignore[attr-defined]
        assert self.make(Both).side == "upper"  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("algorithm", "options", "message"),
        [
            ("spade", {"max_step": 10**400}, "max_step must be at most 10,000,000,000 but got"),
            ("spade", {"indifference": 1e308}, "indifference must be at least 0 and at most"),
            ("spade", {"indifference": "x"}, "indifference must be a number but got 'x'"),
            ("wrr", {"rho": [1]}, r"rho must be a number but got \[1\]"),
            ("wrr", {"rho": 0.5}, "rho must be a number of at least 1 but got 0.5"),
            ("wrr", {"rho": 10**400}, "rho must be a number of at least 1 but got inf"),
            ("rr", {"batch": 2**63}, "batch must be at most 10,000,000,000 but got"),
            ("rr", {"batch": 2.5}, "batch must be a whole number of at least 1 but got 2.5"),
            ("rr", {"bacth": 5}, r"options must be those of RR \(batch\) but got 'bacth'"),
            ("wrr", {"bacth": 5}, r"those of WRR \(rho, batch\) but got 'bacth'"),
            ("ade", {"rng": 1}, r"those of ADE \(shared\) but got 'rng'"),
            ("spade", {"n": 1}, "options must be those of .* but got 'n'"),
            ("ade", {"shared": "x"}, "shared must be true or false but got 'x'"),
        ],
    )
    @pytest.mark.parametrize("side", ["upper", "both"])
    def test_options_of_a_stored_question_that_are_out_of_range(
        self, algorithm: str, options: dict[str, Any], message: str, side: Any
    ) -> None:
        question = Question(3, algorithm=algorithm, options=options, side=side)
        with pytest.raises((InvalidParameter, UnknownOption), match=message):
            Search(Question.from_json(question.to_json()))

    def test_a_delta_that_cannot_be_divided(self) -> None:
        for delta in (5e-324, 1e-300):
            with pytest.raises(InvalidParameter, match="delta must be at least 1e-100 but got"):
                Question(3, delta=delta)

    @pytest.mark.parametrize("algorithm", ["spade", "ade", "rr", "wrr"])
    @pytest.mark.parametrize("side", ["upper", "both"])
    def test_the_least_delta_is_large_enough(self, algorithm: str, side: Any) -> None:
        search = Search(Question(300, delta=1e-100, algorithm=algorithm, side=side))
        for _ in range(3):
            search.tell_step(np.full(search.ask_step().total, 0.5))
        search.result()
