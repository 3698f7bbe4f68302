"""What a search is asked, and the checks of its parts."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddarms import Question
from oddarms.algorithms import get_algorithm
from oddarms.errors import InvalidParameter
from oddarms.problem import VERSION, WORDS, check_whole
from oddarms.rules import Absolute, Control, Mad, Quantile, Sigma, Tukey

RR = get_algorithm("rr")

FULL: dict[str, Any] = {
    "k": 1.5,
    "delta": 0.1,
    "bounds": (-3.0, 5.0),
    "side": "both",
    "budget": 1000,
    "algorithm": "wrr",
    "options": {"rho": 1.7, "batch": 7},
}


class TestParts:
    def test_a_question_holds_what_was_checked(self) -> None:
        question = Question(["a", "b"], k=1, bounds=(-1, 1), side="lower", budget=10.0)
        assert question.labels == ("a", "b")
        assert (question.k, question.bounds, question.side) == (1.0, (-1.0, 1.0), "lower")
        assert (question.n, question.budget, question.options) == (2, 10, {})
        assert type(question.k) is float
        assert type(question.budget) is int

    def test_numbers_for_names(self) -> None:
        assert [Question(n).labels for n in (3, np.int64(3), range(3))] == [range(3)] * 3
        assert Question(10**6).labels == range(10**6)  # which takes no room
        assert Question(range(1, 4)).labels == (1, 2, 3)

    def test_names_of_any_kind_that_is_hashable(self) -> None:
        labels = ["a", 1, 2.5, None, ("x", 1), frozenset()]
        assert Question(labels).labels == tuple(labels)
        assert [type(label) for label in Question(np.array([3, 4])).labels] == [int, int]

    @pytest.mark.parametrize(
        ("labels", "words", "message"),
        [
            (1, {}, "At least 2 arms are needed, but got 1"),
            (-4, {}, "At least 2 arms are needed, but got -4"),
            ([], {}, "At least 2 arms are needed, but got 0"),
            (True, {}, "labels must be the arms' names or their number, not True"),
            (2.0, {}, "labels must be the arms' names or their number, not 2.0"),
            (None, {}, "labels must be the arms' names or their number, not None"),
            (["a", "b", "a"], {}, "labels must be unique but 'a' appears twice"),
            ([[1], [2]], {}, r"labels must be hashable but got \[1\]"),
            (3, {"k": math.inf}, "k must be a finite number but got inf"),
            (3, {"k": "2"}, "k must be a number but got '2'"),
            (3, {"k": 1e308}, r"k must be from -1e\+100 to 1e\+100 but got 1e\+308"),
            (3, {"delta": 0}, "delta must be strictly between 0 and 1 but got 0"),
            (3, {"delta": math.nan}, "delta must be strictly between 0 and 1 but got nan"),
            (3, {"bounds": (1, 1)}, r"bounds must be finite with a < b but got \(1, 1\)"),
            (3, {"bounds": 1}, r"bounds must be two numbers \(a, b\) but got 1"),
            (3, {"bounds": (0, 1, 2)}, r"bounds must be two numbers \(a, b\)"),
            (3, {"side": "left"}, "side must be 'upper', 'lower' or 'both' but got 'left'"),
            (3, {"budget": -1}, "budget must be a whole number of at least 0 but got -1"),
            (3, {"rule": "median"}, "rule must be 'sigma', .* or 'absolute' but got 'median'"),
            (3, {"algorithm": 5}, "algorithm must be a name or a class but got 5"),
            (3, {"k": 10**400}, "k must be a finite number"),
            (3, {"delta": 10**400}, "delta must be strictly between 0 and 1"),
            (3, {"bounds": (0, 10**400)}, "bounds must be finite"),
            (3, {"bounds": "12"}, "bounds must be two numbers"),
            (3, {"options": {"k": 1}}, "'k' is a parameter of the question"),
        ],
    )
    def test_misuse(self, labels: Any, words: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            Question(labels, **words)


class TestValue:
    def test_it_does_not_change(self) -> None:
        question = Question(3, **FULL)
        for name in (*WORDS, "labels", "_options", "anything"):
            with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
                setattr(question, name, 1)
        question.options["batch"] = 8
        assert question.options["batch"] == 7

    def test_nor_with_what_it_was_made_of(self) -> None:
        labels, options = ["a", "b"], {"batch": 7}
        question = Question(labels, algorithm="rr", options=options)
        labels.append("c")
        options["batch"] = 8
        assert (question.labels, question.options) == (("a", "b"), {"batch": 7})

    def test_equal_questions_are_one_key(self) -> None:
        one, two = Question("abc", **FULL), Question(["a", "b", "c"], **FULL)
        assert one == two
        assert hash(one) == hash(two)
        assert {one: "answer"}[two] == "answer"

    def test_any_part_makes_another(self) -> None:
        question = Question("abc", **FULL)
        changes = {"labels": "abd", "k": 1.25, "side": "upper", "budget": None, "options": {}}
        for name, value in changes.items():
            other = question.but(**{name: value})
            assert other != question
            kept = {word for word in (*WORDS, "labels", "options") if word != name}
            assert all(getattr(other, word) == getattr(question, word) for word in kept)

    def test_numbered(self) -> None:
        named = Question("abc", **FULL)
        numbered = named.numbered()
        assert numbered.labels == range(3)
        assert numbered.but(labels="abc") == named
        assert numbered.numbered() is numbered


class TestOf:
    def test_words_it_does_not_have_are_options(self) -> None:
        question = Question.of("abc", {"k": 1, "algorithm": "wrr", "rho": 2.0, "batch": 5})
        assert question == Question("abc", k=1, algorithm="wrr", options={"rho": 2.0, "batch": 5})

    def test_a_question_takes_no_words_beside_it(self) -> None:
        with pytest.raises(InvalidParameter, match="A Question is complete: leave out k, batch"):
            Question.of(Question(3), {"k": 1, "batch": 5})


class TestRules:
    """A rule as an object is a few words of a question."""

    @pytest.mark.parametrize(
        ("rule", "words"),
        [
            (Sigma(k=1.5), {"rule": "sigma", "k": 1.5}),
            (Mad(k=3), {"rule": "mad", "k": 3}),
            (Mad(), {"rule": "mad"}),
            (Mad(4, margin=0.0), {"rule": "mad", "k": 4, "margin": 0}),
            (Tukey(k=2, floor=0.5), {"rule": "tukey", "k": 2, "floor": 0.5}),
            (Quantile(share=0.8), {"rule": "quantile", "quantile": 0.8}),
            (Control("b", 0.02), {"rule": "control", "control": "b", "margin": 0.02}),
            (Control("b"), {"rule": "control", "control": "b"}),
            (Absolute(floor=0.3), {"rule": "absolute", "floor": 0.3}),
        ],
        ids=str,
    )
    def test_objects(self, rule: Any, words: dict[str, Any]) -> None:
        question = Question("abc", rule=rule)
        assert question == Question("abc", **words)
        assert Question.from_json(question.to_json()) == question

    @pytest.mark.parametrize(
        ("rule", "word", "value"), [(Mad(k=3), "k", 2), (Control("a", 0.1), "margin", 0.2)]
    )
    def test_none_is_given_twice(self, rule: Any, word: str, value: float) -> None:
        with pytest.raises(InvalidParameter, match=f"{word} is given twice: in rule=.* Leave one"):
            Question("abc", rule=rule, **{word: value})

    @pytest.mark.parametrize("rule", [Mad, 3, None, object()])
    def test_nothing_else_is_a_rule(self, rule: Any) -> None:
        with pytest.raises((InvalidParameter, TypeError)):
            Question("abc", rule=rule)


class TestWords:
    @pytest.mark.parametrize(
        ("words", "where"),
        [
            ({}, "at or above mean + 2 sd"),
            ({"k": -0.5}, "at or above mean - 0.5 sd"),
            ({"k": 0}, "at or above mean + 0 sd"),
            ({"side": "lower"}, "at or below mean - 2 sd"),
            ({"side": "lower", "k": -1}, "at or below mean + 1 sd"),
            ({"side": "both"}, "at or above mean + 2 sd, or at or below mean - 2 sd,"),
        ],
    )
    def test_sentence(self, words: dict[str, Any], where: str) -> None:
        said = Question(1000, margin=0, **words).sentence()
        assert said == f"which of 1,000 arms have a mean {where} of all means?"


LABELS = st.one_of(
    st.integers(2, 50),
    st.lists(st.one_of(st.text(max_size=5), st.integers()), min_size=2, max_size=6, unique=True),
)
QUESTIONS = st.builds(
    lambda labels, options, **words: Question(labels, options=options, **words),
    LABELS,
    st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.booleans(), st.text())),
    k=st.floats(-1e100, 1e100),
    delta=st.floats(1e-100, 1, exclude_max=True),
    bounds=st.tuples(st.floats(-1e6, 0), st.floats(1e-3, 1e6)),
    side=st.sampled_from(["upper", "lower", "both"]),
    budget=st.one_of(st.none(), st.integers(0, 10**20)),
    algorithm=st.one_of(st.sampled_from(["spade", "rr"]), st.text()),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


class TestJSON:
    @given(QUESTIONS)
    def test_any_question_comes_back(self, question: Question) -> None:
        text = question.to_json()
        again = Question.from_json(text)
        assert again == question
        assert hash(again) == hash(question)
        assert again.to_json() == text

    def test_the_layout(self) -> None:
        assert Question("ab", **FULL).to_dict() == {
            "version": 1,
            "n": 2,
            "labels": ["a", "b"],
            "k": 1.5,
            "delta": 0.1,
            "bounds": [-3.0, 5.0],
            "side": "both",
            "budget": 1000,
            "rule": "sigma",
            "margin": 0.4,
            "floor": None,
            "control": None,
            "quantile": None,
            "error": "fwer",
            "goal": "confidence",
            "algorithm": "wrr",
            "options": {"rho": 1.7, "batch": 7},
        }
        assert Question(5).to_dict()["labels"] is None

    @pytest.mark.parametrize("version", [0, VERSION + 1, "1", None, True, 1.0])
    def test_another_version(self, version: Any) -> None:
        with pytest.raises(InvalidParameter, match="this program reads 1"):
            Question.from_dict({**Question(3).to_dict(), "version": version})

    def test_what_cannot_be_written_down(self) -> None:
        with pytest.raises(InvalidParameter, match=r"texts and whole numbers .* not 2\.5"):
            Question(["a", 2.5]).to_dict()
        with pytest.raises(InvalidParameter):
            Question(["a", 2.5]).to_json()
        with pytest.raises(InvalidParameter, match="class RR as algorithm cannot be saved"):
            Question(3, algorithm=RR).to_json()
        for value in (math.nan, {1, 2}, b"bytes"):
            with pytest.raises(InvalidParameter, match="Only plain values can be saved"):
                Question(3, options={"it": value}).to_json()

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "null",
            "3",
            "[]",
            '"text"',
            "{}",
            '{"version": 1}',
            "[" * 100_000,
            "\x00",
            '{"version": 1, "version": 2}',
            None,
            5,
            b"\xff\xfe\x00",
        ],
    )
    def test_what_is_no_question(self, text: Any) -> None:
        with pytest.raises(InvalidParameter):
            Question.from_json(text)

    @pytest.mark.parametrize("part", [*WORDS, "n", "labels", "options", "version"])
    def test_a_part_is_missing(self, part: str) -> None:
        document = Question(3).to_dict()
        del document[part]
        with pytest.raises(InvalidParameter, match=f"incomplete or damaged: '{part}'"):
            Question.from_dict(document)

    @settings(max_examples=200)
    @given(st.sampled_from([*WORDS, "n", "labels", "options", "version"]), JSON, st.booleans())
    def test_any_part_may_be_nonsense(self, part: str, value: Any, named: bool) -> None:
        """It is a sound question, which comes back, or `InvalidParameter`."""
        document = {**Question("ab" if named else 2, **FULL).to_dict(), part: value}
        try:
            question = Question.from_json(json.dumps(document))
        except InvalidParameter:
            return
        assert Question.from_json(question.to_json()) == question


@pytest.mark.parametrize("value", [0, 2.5, math.nan, math.inf, True, "3", None])
def test_counts_must_be_whole_numbers(value: object) -> None:
    with pytest.raises(InvalidParameter, match="runs must be a whole number of at least 1"):
        check_whole("runs", value, least=1)
