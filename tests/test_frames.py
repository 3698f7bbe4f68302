"""Rewards that people have: lists by label, frames, arrays with labels, counts; and clipping."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oddarms import Search, create_study, delete_study, find
from oddarms.errors import InvalidParameter, PullFailed, RewardRejected
from oddarms.tables import Transform, recorded_rewards
from oddarms.tables._frames import MOST_TRIALS, rewards_of_counts

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

RATES = {"ann": 0.1, "bob": 0.05, "cy": 0.07, "dee": 0.1, "eve": 0.95, "fay": 0.2}
_RNG = np.random.default_rng(1)
ROWS = {label: (_RNG.random(300) < rate).astype(int) for label, rate in RATES.items()}
QUESTION = {"k": 1.5, "rng": 1}


def columns() -> dict[str, list[Any]]:
    pairs = [(label, int(x)) for label, rewards in ROWS.items() for x in rewards]
    order = np.random.default_rng(2).permutation(len(pairs)).tolist()
    workers, wrong = zip(*(pairs[i] for i in order), strict=True)
    return {"worker": list(workers), "wrong": list(wrong)}


def frame() -> Any:
    return pandas.DataFrame(columns())


def counts() -> Any:
    wrong = [int(rewards.sum()) for rewards in ROWS.values()]
    return pandas.DataFrame({"successes": wrong, "trials": 300}, index=list(ROWS))


def plain_counts() -> dict[str, list[Any]]:
    wrong = [int(rewards.sum()) for rewards in ROWS.values()]
    return {"host": list(ROWS), "successes": wrong, "trials": [300] * len(ROWS)}


LIBRARIES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.table,
    "batch": pyarrow.RecordBatch.from_pydict,
}
NAMED = {"arm": "worker", "reward": "wrong"}
FORMS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "lists": (lambda: {label: rewards.tolist() for label, rewards in ROWS.items()}, {}),
    "arrays": (lambda: ROWS, {}),
    "series": (lambda: {label: pandas.Series(rewards) for label, rewards in ROWS.items()}, {}),
    "array": (lambda: np.array(list(ROWS.values())), {"labels": list(ROWS)}),
    "rows": (lambda: [rewards.tolist() for rewards in ROWS.values()], {"labels": list(ROWS)}),
    "pandas": (frame, NAMED),
    "nullable": (lambda: frame().astype({"wrong": "Int64", "worker": "category"}), NAMED),
    "truths": (lambda: frame().astype({"wrong": bool}), NAMED),
    "words": (lambda: frame().replace({"wrong": {0: "no", 1: "Yes"}}), NAMED),
    "index": (lambda: frame().set_index("worker"), {"reward": "wrong"}),
    "usual names": (lambda: frame().set_axis(["arm", "reward"], axis=1), {}),
    "polars": (lambda: polars.DataFrame(columns()), NAMED),
    "polars categories": (
        lambda: polars.DataFrame(
            columns(), schema={"worker": polars.Categorical, "wrong": polars.Float32}
        ),
        NAMED,
    ),
    "polars series": (
        lambda: {label: polars.Series(rewards) for label, rewards in ROWS.items()},
        {},
    ),
    "polars counts": (lambda: polars.DataFrame(plain_counts()), {"arm": "host"}),
    "pyarrow": (lambda: pyarrow.table(columns()), NAMED),
    "pyarrow batch": (lambda: pyarrow.RecordBatch.from_pydict(columns()), NAMED),
    "pyarrow counts": (lambda: pyarrow.table(plain_counts()), {"arm": "host"}),
    "counts": (counts, {}),
    "named counts": (lambda: counts().rename_axis("host").reset_index(), {"arm": "host"}),
    "counts by hour": (lambda: pandas.concat([counts() // 2, counts() - counts() // 2]), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_recorded_answers_and_is_used_once(form: str) -> None:
    make, words = FORMS[form]
    result = find(make(), **words, **QUESTION)
    assert result.outliers == ["eve"]
    assert (result.status, result.imported) == ("decided", 0)
    assert set(result.labels) == set(ROWS)
    assert result.pulls < 1800


@pytest.mark.parametrize("form", FORMS)
def test_a_history_is_the_same_in_all_forms(form: str) -> None:
    make, words = FORMS[form]
    search = Search(list(ROWS), **QUESTION)
    assert search.import_rewards(make(), **words) == 1800
    assert search.result().outliers == ["eve"]
    assert search.result().means.tolist() == [
        pytest.approx(float(rewards.mean())) for rewards in ROWS.values()
    ]


def test_too_little_ranks_the_rest() -> None:
    result = find({"a": [0, 1], "b": [0, 0, 1], "c": [0], "d": [1, 1, 1], "e": [0]}, k=1)
    assert result.status == "ended"
    assert result.undecided
    assert result.guess[0] == "d"
    assert result.pulls + result.imported == 10


def test_a_study_takes_a_frame_once() -> None:
    study = create_study("frames", list(ROWS), k=1.5, storage="memory", rng=1)
    try:
        assert study.import_rewards(counts(), key="prometheus") == 1800
        assert study.import_rewards(counts(), key="prometheus") == 0
        assert study.import_rewards(frame()[:7], **NAMED) == 7
        assert study.result().outliers == ["eve"]
        for history in (study, Search(list(ROWS), k=1.5)):
            with pytest.raises(InvalidParameter, match="arm and reward must be left out unless"):
                history.import_rewards({"ann": [0]}, arm="worker")
    finally:
        delete_study("frames", storage="memory")


@pytest.mark.parametrize("keys", [("monday", "tuesday"), (None, None)])
def test_imports_of_counts_are_in_orders_of_their_own(keys: tuple[str | None, ...]) -> None:
    study = create_study("frames", ["a", "b"], k=1, storage="memory", rng=1)
    try:
        for key, more in zip(keys, (0, 1), strict=True):
            table = {"arm": ["a", "b"], "successes": [100 + more, 0], "trials": [200, 1]}
            assert study.import_rewards(pandas.DataFrame(table), key=key) == 201
        rewards = [trial.reward for trial in study.trials() if trial.arm == "a"]
        differing = sum(a != b for a, b in zip(rewards[:200], rewards[200:], strict=True))
        assert 50 < differing < 150, "of two random orders about half the places differ"
    finally:
        delete_study("frames", storage="memory")


def test_functions_go_on_from_a_frame() -> None:
    functions = {label: (lambda rate=rate: float(rate > 0.5)) for label, rate in RATES.items()}
    some = frame()[:100]
    result = find(functions, imported=some, **NAMED, **QUESTION)
    assert result.outliers == ["eve"]
    assert result.imported == 100
    clipped = find(functions, imported=some, clip=(0, 0.5), **NAMED, **QUESTION)
    assert clipped.question.bounds == (0.0, 0.5)
    assert clipped.outliers == ["eve"]


class TestCounts:
    def test_the_order_is_random_and_decided_by_rng(self) -> None:
        def order(seed: int) -> list[float]:
            search = Search(["a", "b"], k=0.5, rng=seed, algorithm="rr")
            table = pandas.DataFrame({"successes": [20, 0], "trials": [40, 40]}, index=["a", "b"])
            rng = search.algorithm.rng
            return recorded_rewards(table, rng=rng)["a"].tolist()

        assert order(1) == order(1) != order(2)
        assert sorted(order(1)) == [0.0] * 20 + [1.0] * 20
        assert order(1) != sorted(order(1), reverse=True)

    def test_every_order_is_equally_likely(self) -> None:
        rng = np.random.default_rng(5)
        one, three = np.array([1.0]), np.array([3.0])
        firsts = [rewards_of_counts(["a"], one, three, rng)["a"].argmax() for _ in range(3000)]
        assert np.bincount(firsts, minlength=3) == pytest.approx([1000] * 3, abs=120)

    @pytest.mark.parametrize(
        ("successes", "trials", "rule"),
        [
            (4, 3, "from 0 to trials but arm 'b' has 4 of 3"),
            (-1, 3, "'b' has -1 of 3"),
            (0.5, 3, "'b' has 0.5 of 3"),
            (float("nan"), 3, "'b' has nan of 3"),
            (1, float("inf"), "'b' has 1 of inf"),
            (1, MOST_TRIALS, "trials must be at most 20,000,000 in all but are 20,000,001"),
        ],
    )
    def test_what_cannot_be(self, successes: float, trials: float, rule: str) -> None:
        table = pandas.DataFrame(
            {"arm": ["a", "b"], "successes": [0, successes], "trials": [1, trials]}
        )
        with pytest.raises(InvalidParameter, match=rule):
            find(table)


BIG = np.zeros((1000, 3))
WRONG: list[tuple[Callable[[], Any], dict[str, Any], str]] = [
    (lambda: BIG, {"labels": "abc"}, r"rows, 1,000, but are 3: .* give array\.T"),
    (lambda: BIG, {}, "labels must be given for an array of rewards, one for each"),
    (lambda: BIG[0], {"labels": "abc"}, r"a row for each arm but has the shape \(3,\)"),
    (lambda: {"a": BIG, "b": [0]}, {}, "rewards of arm 'a' must be a list of numbers but got arr"),
    (lambda: {"a": BIG[:, 0], "b": len}, {}, "arm 'a' must be callable but is array"),
    (lambda: [BIG[:, 0]] * 3, {}, "labels must be given for an array of rewards, one for each of"),
    (
        lambda: {"a": [0], "b": []},
        {},
        "arm 'b' must be a list .* but it is empty: leave the",
    ),
    (lambda: {"a": [0], "b": ["x" * 1000]}, {}, "must be numbers but number 0 is 'xxx"),
    (lambda: {"a": [0], "b": [1, 7] * 500}, {}, "but 500 of the 1,000 of arm 'b' do not, such as"),
    (lambda: {"a": [0], "b": [1, None]}, {}, "must not be missing but 1 of 2 are, the first at 1"),
    (lambda: {"a": [0], "b": [1, "NA"]}, {}, "must not be missing but 1 of 2 .* missing='skip'"),
    (lambda: {"a": [0], "b": [1, "x"]}, {}, "must be numbers but number 1 is 'x'"),
    (lambda: {"a": [0], "b": [1]}, {"missing": "drop"}, "missing must be 'stop', 'skip' or"),
    (lambda: {"a": [0], "b": [1]}, {"arm": "x"}, "arm must be left out unless there is a frame"),
    (lambda: {"a": [0], "b": [1]}, {"labels": "ab"}, "labels must be left out unless there is an"),
    (frame, {}, "reward must name a column of the frame, .* the columns are 'worker', 'wrong'"),
    (frame, {"reward": "wrong"}, "arm must name the frame's column of labels, or they must be"),
    (frame, {"arm": "who", "reward": "wrong"}, "but 'who' is not among 'worker', 'wrong'"),
    (frame, {"arm": "wrong", "reward": "worker"}, "'worker' must be numbers, yes/no or true/false"),
    (lambda: polars.DataFrame({"wrong": [0]}), {"reward": "wrong"}, "arm must name the frame's"),
    (lambda: polars.DataFrame(columns()).lazy(), NAMED, r"LazyFrame are yet .* frame\.collect\(\)"),
    (lambda: frame()["wrong"], {}, "arms must have labels and pull.* but got Series"),
    (lambda: pandas.concat([frame()] * 2, axis=1), NAMED, "'wrong' is twice"),
    (lambda: counts().reset_index(), {}, "arm must name the frame's column of labels"),
    (frame, {**NAMED, "storage": "x.db"}, "storage must be left out where every reward"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_input_is_one_short_line(case: int) -> None:
    make, words, rule = WRONG[case]
    with pytest.raises(InvalidParameter, match=rule) as caught:
        find(make(), **words)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_reward_that_is_an_array_is_not_dumped() -> None:
    search = Search(["a", "b", "c"], k=1)
    for given in (BIG, BIG.tolist(), frame()):
        with pytest.raises(RewardRejected) as caught:
            search.tell(search.ask(1)[0], given)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 200
    with pytest.raises(InvalidParameter, match="k must be a number but got array") as raised:
        Search(["a", "b"], k=BIG)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "nothing", [None, float("nan"), np.nan, pandas.NA, pandas.NaT], ids=["None", "nan", *"123"]
)
def test_missing_rewards(nothing: Any) -> None:
    rows = {"a": [0, nothing, 1], "b": [nothing, 1]}
    table = pandas.DataFrame({"arm": ["a", "a", "b", "b"], "reward": [0, nothing, 1, 1]})
    assert [x.size for x in recorded_rewards(rows, missing="skip").values()] == [2, 1]
    worst = recorded_rewards(rows, missing="worst", worst=10.0)
    assert worst["a"].tolist() == [0.0, 10.0, 1.0]
    assert [x.tolist() for x in recorded_rewards(table, missing="skip").values()] == [[0], [1, 1]]
    with pytest.raises(InvalidParameter, match="missing='skip' leaves them out"):
        recorded_rewards(table)
    search = Search(["a", "b"], k=0.5, bounds=(0, 10), side="lower")
    search.import_rewards(rows, missing="worst")
    assert search.result().means.tolist() == [pytest.approx(1 / 3), 0.5]


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_rewards_of_every_library(library: str) -> None:
    table = LIBRARIES[library]({"arm": ["a", "b", "a", "c"], "reward": [0, 1, None, None]})
    skipped = recorded_rewards(table, missing="skip")
    assert {label: rewards.tolist() for label, rewards in skipped.items()} == {
        "a": [0.0], "b": [1.0], "c": [],
    }  # fmt: skip
    worst = recorded_rewards(table, missing="worst", worst=7.0)
    assert [rewards.tolist() for rewards in worst.values()] == [[0.0, 7.0], [1.0], [7.0]]
    with pytest.raises(InvalidParameter, match="missing but 2 of 4 are, the first at 2"):
        recorded_rewards(table)


@pytest.mark.parametrize("library", LIBRARIES)
def test_words_and_truths_of_every_library(library: str) -> None:
    for words in (["yes", "No"], [True, False]):
        table = LIBRARIES[library]({"arm": [7, 8], "reward": words})
        assert {k: v.tolist() for k, v in recorded_rewards(table).items()} == {7: [1.0], 8: [0.0]}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_row_without_a_label(library: str) -> None:
    table = LIBRARIES[library]({"arm": ["a", None], "reward": [0, 1]})
    with pytest.raises(InvalidParameter, match="every row must name an arm but that of row 1"):
        find(table)


class TestTransforms:
    def test_clipping_counts_what_it_changes(self) -> None:
        transform = Transform(clip=(0, 10))
        clipped = transform.many(np.array([-1.0, 3.0, 10.0, 11.0, np.inf]))
        assert clipped.tolist() == [0.0, 3.0, 10.0, 10.0, 10.0]
        assert transform.said() == "3 of 5 samples were clipped to [0, 10]"
        assert "clipped to [0, 10]" in transform.meaning()
        assert pickle.loads(pickle.dumps(transform)).clip == (0.0, 10.0)

    def test_what_is_no_number_is_refused_as_ever(self) -> None:
        assert np.isnan(Transform(above=1).one(float("nan")))
        assert np.isnan(Transform(clip=(0, 1)).one(float("nan")))
        assert Transform(above=1).one("fast") == "fast"
        with pytest.raises(PullFailed, match="reward must be a number but got 'fast'"):
            find([lambda: "fast"] * 3, k=0.5, above=1)  # type: ignore[list-item]
        with pytest.raises(PullFailed, match="bounds"):
            find([lambda: float("nan")] * 3, k=0.5, above=1)

    @pytest.mark.parametrize(
        ("words", "rule"),
        [
            ({"clip": (0, 10), "above": 1}, "one of clip and above must be left out"),
            ({"clip": (0, float("inf"))}, r"clip must be finite with a < b but got \(0, inf\)"),
            ({"clip": 3}, r"clip must be two numbers"),
            ({"above": float("nan")}, "above must be a finite number"),
            ({"above": "1"}, "above must be a number"),
        ],
    )
    def test_what_is_refused(self, words: dict[str, Any], rule: str) -> None:
        with pytest.raises(InvalidParameter, match=rule):
            find([lambda: 0.0] * 3, **words)

    def test_latencies(self) -> None:
        rng = np.random.default_rng(3)
        seconds = {host: rng.exponential(0.1, 2000) for host in "abcdef"}
        seconds["f"] += 5.0
        slow = find(seconds, above=1.0, k=1.5, rng=1)
        assert slow.outliers == ["f"]
        assert slow.question.bounds == (0.0, 1.0)
        capped = find(seconds, clip=(0, 2), k=1.5, rng=1)
        assert capped.outliers == ["f"]
        assert capped.question.bounds == (0.0, 2.0)
        called = {host: (lambda s=s: float(s[0]) + 4.0 * (s[0] > 3)) for host, s in seconds.items()}
        assert find(called, clip=(0, 5), k=1.5).outliers == ["f"]

    def test_async_functions_are_awaited(self) -> None:
        async def fast() -> float:
            return 0.1

        async def slow() -> float:
            return 99.0

        assert find({"a": fast, "b": fast, "c": slow}, above=1, k=1).outliers == ["c"]

    def test_a_source_of_ones_own_does_it_itself(self) -> None:
        from oddarms.arms import Bernoulli

        with pytest.raises(
            InvalidParameter, match=r"clip and above .* got Bernoulli: let its pull"
        ):
            find(Bernoulli([0.1, 0.9]), clip=(0, 1))
