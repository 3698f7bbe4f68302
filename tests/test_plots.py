"""Pictures are drawn for every kind of result."""

from __future__ import annotations

from pathlib import Path

import pytest

from oddarms import Search, find
from oddarms.arms import Bernoulli
from oddarms.plots import plot_intervals

MEANS = [0.1, 0.2, 0.1, 0.3, 0.95]


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_both_rounds_are_drawn(side: str, tmp_path: Path) -> None:
    result = find(Bernoulli(MEANS), k=1, delta=0.1, rng=1, side=side, budget=2000)
    figure = plot_intervals(result, tmp_path / "new" / "picture.png")
    first, last = figure.axes
    assert first.get_title(loc="left").startswith("First round")
    assert last.get_title(loc="left").startswith("Last round")
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len([name for name in names if name.endswith("threshold")]) == len(result.thresholds)
    assert (tmp_path / "new" / "picture.png").stat().st_size > 5_000


def test_a_search_that_has_not_begun(tmp_path: Path) -> None:
    result = Search(5, k=1, delta=0.1).result()
    plot_intervals(result, tmp_path / "empty.svg")
    assert (tmp_path / "empty.svg").exists()
