"""A picture of several rules: every line at its threshold, every name apart."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms.errors import InvalidParameter
from oddarms.plotting import plot_rules

MEANS = np.append(np.random.default_rng(2).normal(0.3, 0.06, 46), [0.62, 0.7, 0.9, 0.95])
MANY: list[dict[str, Any]] = [
    {"k": 2},
    {"rule": "mad"},
    {"rule": "tukey"},
    {"rule": "quantile", "quantile": 0.9},
    {"rule": "absolute", "floor": 0.5},
    {"rule": "control", "control": 3, "margin": 0.1},
    {"rule": "mad", "margin": 0.2},
    {"rule": "mad", "side": "lower"},
]


def names(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_line_for_each_rule() -> None:
    figure = plot_rules(MEANS)
    assert [name.splitlines()[0] for name in names(figure)] == [
        "mean + 2 sd", "median + 3 MAD", "Q3 + 1.5 IQR", "the 0.9 quantile",
    ]  # fmt: skip
    dots = figure.axes[0].lines[0].get_ydata()
    assert dots.tolist() == np.sort(MEANS).tolist()
    level = figure.axes[0].lines[1].get_ydata()[0]
    assert level == pytest.approx(MEANS.mean() + 2 * MEANS.std())


def test_in_other_units_and_on_the_other_side() -> None:
    words = [{"rule": "absolute", "floor": 40.0, "side": "lower"}]
    figure = plot_rules(100 * MEANS, questions=words, bounds=(0, 100))
    assert figure.axes[0].lines[1].get_ydata()[0] == pytest.approx(40.0)
    assert names(figure) == [f"40\n40, {(MEANS <= 0.4).sum()} arms"]


@pytest.mark.parametrize("size", [(9.0, 4.8), (6.0, 4.0)])
def test_names_do_not_meet_and_are_not_cut(size: tuple[float, float]) -> None:
    figure = plot_rules(MEANS, questions=MANY[:6], size=size)
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)


def test_a_file(tmp_path: Path) -> None:
    plot_rules(MEANS, tmp_path / "rules.svg", questions=MANY)
    assert b"<svg" in (tmp_path / "rules.svg").read_bytes()


def test_bad_words_get_a_sentence() -> None:
    with pytest.raises(InvalidParameter, match="requires the parameter quantile"):
        plot_rules(MEANS, questions=[{"rule": "quantile"}])
