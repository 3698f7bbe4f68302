"""Which words of a question may be changed on samples that are there, and what that makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oddarms.algorithms import Algorithm
from oddarms.errors import InvalidParameter
from oddarms.problem import WORDS, Question, check_number

DECIDING = ("margin", "floor", "indifference")
"""An algorithm decides anew where one of them changes; it must be able to."""
REVISABLE = (*DECIDING, "budget")
ANEW = "begin a new search (in a storage, under another name; in the shell, --fresh)"


def changed(question: Question, changes: Mapping[str, Any]) -> Question:
    """Return a question with some words changed; words that it does not have are options."""
    own = {word: value for word, value in changes.items() if word in WORDS}
    options = {word: value for word, value in changes.items() if word not in WORDS}
    if "indifference" in options:
        options["indifference"] = check_number("indifference", options["indifference"])
    return question.but(**own, options={**question.options, **options})


def revision(
    question: Question, wanted: Question, algorithm: Algorithm, *, looked: bool, told: int
) -> Question:
    """Return the question to go on with where another one is wanted, if it is one to go on with.

    Parameters
    ----------
    question
        What was asked so far.
    wanted
        What shall be asked: the same but for margin, floor, indifference, and a larger budget or
        the first one.
    algorithm
        Has the samples.
    looked
        Whether there are any: a margin or floor is then chosen after looking at them.
    told
        How many of them cost budget.
    """
    _check_the_rest(question, wanted)
    words = {word: getattr(wanted, word) for word in REVISABLE}
    new = {word: value for word, value in words.items() if value != getattr(question, word)}
    if "budget" in new:
        _check_budget(question.budget, new["budget"], told)
    for word in DECIDING:
        if word in new and question.error == "fdr":
            raise InvalidParameter(
                f"{word} must stay what it was ({getattr(question, word)}) where error is 'fdr', as"
                f" an average share is not kept for a {word} that is chosen after looking, but got"
                f" {new[word]}: {ANEW}."
            )
        if word in new and not algorithm.revisable:
            raise InvalidParameter(
                f"{word} must stay what it was ({getattr(question, word)}) for the algorithm"
                f" {question.algorithm_name}, which cannot decide anew from its samples, but got"
                f" {new[word]}: {ANEW}."
            )
    options = question.options
    if "indifference" in new:
        options["indifference"] = new.pop("indifference")
    after_looking = looked and ("margin" in new or "floor" in new)
    return question.but(**new, options=options, revised=question.revised or after_looking)


def _check_the_rest(question: Question, wanted: Question) -> None:
    """Raise where something differs that must stay."""
    if question.labels != wanted.labels:
        raise _another("labels", f"{question.n:,} arms", f"{wanted.n:,} arms")
    for word in WORDS:
        old, new = getattr(question, word), getattr(wanted, word)
        if word not in (*REVISABLE, "revised") and old != new:
            raise _another(word, old, new)
    before, options = question.options, wanted.options
    for word in sorted({*before, *options} - set(REVISABLE)):
        if before.get(word) != options.get(word):
            raise _another(word, before.get(word), options.get(word))


def _check_budget(before: int | None, budget: int | None, told: int) -> None:
    """Raise for a budget that the search cannot keep.

    One that comes later ends the search earlier, as Ctrl-C would, which what is decided allows for.
    A smaller one does not: a search whose goal is its budget has made its plans with it.
    """
    if budget is None:
        return
    if before is None and budget < told:
        raise InvalidParameter(
            f"budget must not be smaller than the number of samples that are there ({told:,}) but"
            f" got {budget:,}."
        )
    if before is not None and budget < before:
        raise InvalidParameter(
            f"budget must not become smaller than it was ({before:,}) but got {budget:,}: {ANEW}."
        )


def _another(word: str, old: object, new: object) -> InvalidParameter:
    return InvalidParameter(
        f"{word} must stay what it was ({old}) but got {new}: only margin, floor, indifference and"
        f" a larger or first budget may be changed on samples that are there; {ANEW}."
    )
