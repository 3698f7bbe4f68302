"""After how many pulls each arm was decided."""

import numpy as np
import pytest

import oddarms
from oddarms import Search

TRUTH = np.array([0.1, 0.15, 0.2, 0.1, 0.95, 0.2, 0.12, 0.18])


def run_noting(search: Search, rng: np.random.Generator) -> dict[int, int]:
    """Drive a search, and note by hand when each arm has the decision of the end."""
    since: dict[int, tuple[int, int]] = {}
    while not search.done:
        pulls = search.ask_step()
        rates = TRUTH[pulls.indices].repeat(pulls.counts)
        search.tell_step((rng.random(rates.size) < rates).astype(float))
        for arm, decision in enumerate(search.decisions.tolist()):
            if since.get(arm, (0, 0))[0] != decision:
                since[arm] = (decision, search.pulls)
    return {arm: after for arm, (_, after) in since.items()}


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
@pytest.mark.parametrize("algorithm", ["spade", "rr"])
def test_pulls_at_each_decision_are_kept(side, algorithm):
    options = {"batch": 50} if algorithm == "rr" else {}
    search = Search(8, k=1.5, side=side, margin=0.0, algorithm=algorithm, **options)
    noted = run_noting(search, np.random.default_rng(3))
    result = search.result()
    assert result.decided_after is not None
    assert {i: int(after) for i, after in enumerate(result.decided_after)} == noted
    assert [row["decided_after"] for row in result.rows()] == [noted[i] for i in range(8)]


def test_a_study_read_anew_has_the_same_decisions_at_the_same_pulls(tmp_path):
    place = tmp_path / "s.db"
    rng = np.random.default_rng(5)
    study = oddarms.create_study("s", [f"arm {i}" for i in range(8)], k=1.5, rng=1, storage=place)
    while not (tickets := study.ask(50)).done:
        study.tell_many([(t, float(rng.random() < TRUTH[t.index])) for t in tickets])
    first = study.result().decided_after
    assert first is not None
    assert (first >= 0).all()
    again = oddarms.load_study("s", storage=place).result().decided_after
    assert np.array_equal(first, again)
