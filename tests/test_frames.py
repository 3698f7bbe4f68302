"""Recorded data in Python: lists by label, arrays with labels, frames of every library."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms import Search, find
from oddarms.errors import InvalidParameter
from oddarms.tables import Transform, read_rewards, read_totals

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

ROWS = {"ann": [0.0, 1.0, 1.0], "bob": [0.5], "cy": [0.0, 0.0, 0.25, 1.0]}
COLUMNS: dict[str, list[Any]] = {
    "worker": [label for label, rewards in ROWS.items() for _ in rewards],
    "wrong": [reward for rewards in ROWS.values() for reward in rewards],
}
LIBRARIES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pandas.DataFrame,
    "pandas with types of its own": lambda columns: pandas.DataFrame(columns).convert_dtypes(),
    "polars": polars.DataFrame,
    "polars, lazy": polars.LazyFrame,
    "pyarrow": pyarrow.table,
    "duckdb": lambda columns: pytest.importorskip("duckdb").from_arrow(pyarrow.table(columns)),
}
NAMED = {"arm": "worker", "reward": "wrong"}
FRAME = pandas.DataFrame(COLUMNS)
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lists": (ROWS, {}),
    "arrays": ({label: np.array(rewards) for label, rewards in ROWS.items()}, {}),
    "series by label": ({label: pandas.Series(rewards) for label, rewards in ROWS.items()}, {}),
    "a series": (FRAME.set_index("worker")["wrong"], {}),
    "an index": (FRAME.set_index("worker"), {"reward": "wrong"}),
    "usual names": (FRAME.rename(columns={"worker": "arm", "wrong": "reward"}), {}),
    "categories": (FRAME.astype({"worker": "category"}), NAMED),
    "rewards": (read_rewards(ROWS), {}),
    **{library: (library, NAMED) for library in LIBRARIES},
}


def form_of(form: str) -> tuple[Any, dict[str, Any]]:
    """Return the rows in a form, and the words that say which columns they are."""
    data, words = FORMS[form]
    return (LIBRARIES[form](COLUMNS) if form in LIBRARIES else data), words


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_read_alike(form: str) -> None:
    data, words = form_of(form)
    found = read_rewards(data, **words).by_label()
    assert {label: rewards.tolist() for label, rewards in found.items()} == ROWS
    totals = read_totals(data, **words)
    assert (totals.labels, totals.counts.tolist()) == (list(ROWS), [3, 1, 4])
    assert totals.sums.tolist() == [2.0, 0.5, 1.25]
    assert totals.squares.tolist() == [2.0, 0.25, 1.0625]
    assert totals.half[0].tolist() == read_totals(ROWS).half[0].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_find_says_what_to_call(form: str) -> None:
    data, _ = form_of(form)
    with pytest.raises(InvalidParameter, match=r"call oddarms\.analyze"):
        find(data)


def test_a_search_takes_a_frame_as_its_history() -> None:
    search = Search(list(ROWS), k=1)
    assert search.add_history(FRAME, **NAMED) == 8
    with pytest.raises(InvalidParameter, match="history has rewards of 'ann', which is not an arm"):
        Search(["bob", "cy"], k=1).add_history(FRAME, **NAMED)


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_rewards(library: str) -> None:
    data = LIBRARIES[library]({"arm": ["a", "b", "a", "c"], "reward": [1.0, None, 0.0, None]})
    words = {"arm": "arm", "reward": "reward"}
    with pytest.raises(InvalidParameter, match="row 2: reward is missing; missing='skip' leaves"):
        read_totals(data, **words)
    skipped = read_totals(data, **words, missing="skip")
    assert (skipped.labels, skipped.left_out, skipped.missing) == (["a"], {"b": 0, "c": 0}, 2)
    worst = read_rewards(data, **words, missing="worst", worst=0.0)
    assert worst.rewards.tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "values", [["yes", "No", "TRUE"], [True, False, True], [Decimal(1), Decimal(0), Decimal("1.0")]]
)
def test_words_truths_and_decimals(library: str, values: list[Any]) -> None:
    data = LIBRARIES[library]({"arm": ["a", "b", "a"], "reward": values})
    found = read_rewards(data, arm="arm", reward="reward")
    assert found.rewards.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_labels(library: str) -> None:
    numbers = LIBRARIES[library]({"arm": [7, 3, 7], "reward": [1, 0, 1], "day": ["x", "y", "z"]})
    found = read_totals(numbers, arm="arm", reward="reward")
    assert found.labels == [7, 3]
    assert all(type(label) is int for label in found.labels)
    both = read_totals(numbers, arm=["arm", "day"], reward="reward")
    assert both.labels == ["7 / x", "3 / y", "7 / z"]
    missing = LIBRARIES[library]({"arm": ["a", None], "reward": [1, 0]})
    with pytest.raises(InvalidParameter, match="row 2: the label of the arm is missing"):
        read_totals(missing, arm="arm", reward="reward")


@pytest.mark.parametrize("library", LIBRARIES)
def test_counts(library: str) -> None:
    data = LIBRARIES[library]({"host": ["a", "b", "a"], "events": [1, 0, 2], "trials": [5, 3, 5]})
    totals = read_totals(data, arm="host", events="events", trials="trials")
    assert (totals.counts.tolist(), totals.sums.tolist()) == ([10, 3], [3.0, 0.0])


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ({"a": [1, 2]}, {}, "arm 'a': the reward must lie within the bounds [0, 1], but is 2; for"),
    ({"a": [1, float("inf")]}, {}, "arm 'a': the reward must lie within the bounds [0, 1], but is"),
    ({"a": [1, "x"]}, {}, "rewards of 'a' must be a number, yes/no or true/false, but is 'x'"),
    ({"a": [[1], [1, 2]]}, {}, "rewards of 'a' must be a list of numbers, but got"),
    ({"a": 1}, {}, "rewards of 'a' must be a list of numbers, but got 1"),
    ({"a": np.array(["2026-01-01"], dtype="M8[D]")}, {}, "must be numbers, but its type is"),
    ({"x": ["a"], "y": [1]}, {"arm": "x"}, "arm must name columns of a table, but data is a dict"),
    (np.zeros((2, 3)), {}, "but got ndarray; dict(zip(labels, array)) makes a mapping"),
    (3, {}, "data must be a frame, a path or a mapping from label to rewards, but got int"),
    (FRAME, {}, "data: arm must name the column of labels, one of 'worker', 'wrong'"),
    (FRAME, {"arm": "worker"}, "data: reward must name the column of rewards, one of 'worker'"),
    (FRAME, {"arm": [], "reward": "wrong"}, "data: arm must name the column of labels"),
    (FRAME, {**NAMED, "encoding": "utf-8"}, "encoding is only for files"),
    (FRAME, {"arm": "worker", "reward": "worker"}, "row 1: worker must be a number, yes/no or"),
    (polars.DataFrame({"arm": [["a"]], "reward": [1]}), {}, "must be texts or numbers"),
    (pandas.DataFrame([[1, 2]], columns=["arm", "arm"]), {}, "Expected unique column names"),
    (polars.Series([1, 0]), {}, "data: arm must name the column of labels"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_input_is_one_short_line(case: int) -> None:
    data, words, rule = WRONG[case]
    with pytest.raises(InvalidParameter) as caught:
        read_totals(data, **words)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_lists_need_no_library() -> None:
    """Numbers by label are read without pandas, which takes a while to import."""
    code = (
        "import sys; from oddarms.tables import read_totals;"
        " found = read_totals({'a': [0, 1, None], 'b': [True]}, missing='skip');"
        " assert found.counts.tolist() == [2, 1];"
        " sys.exit(', '.join({'pandas', 'narwhals', 'pyarrow'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.parametrize(
    ("data", "module", "extra"),
    [(FRAME, "narwhals", "frame"), (FRAME, "pandas", "frame"), ("a.csv", "pandas", "frame")],
)
def test_a_missing_extra_is_a_sentence(
    data: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("arm,reward\na,1\n")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'oddarms\[{extra}\]'"):
        read_totals(data, **NAMED)


class TestTransform:
    def test_clipping_counts_what_it_changes(self) -> None:
        clip = Transform(clip=(0, 10))
        found = read_rewards({"a": [5, 12], "b": [-1]}, transform=clip, bounds=clip.bounds)
        assert found.rewards.tolist() == [5.0, 10.0, 0.0]
        assert clip.said() == "2 of 3 samples were clipped to [0, 10]"
        assert pickle.loads(pickle.dumps(clip)).clip == (0.0, 10.0)

    def test_functions(self) -> None:
        seconds = iter(range(10**9))
        arms = {"a": lambda: next(seconds) % 7, "b": lambda: 0.25, "c": lambda: 50.0}
        assert find(arms, above=10, k=1, rng=1).outliers == ["c"]
        assert find(arms, clip=(0, 20), k=1, rng=1).outliers == ["c"]
