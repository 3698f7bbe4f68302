"""The answer in words, for somebody who has never heard of a bandit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oddarms.documents import Block, Paragraph
from oddarms.problem import Question
from oddarms.reports._account import Account
from oddarms.reports._formats import exact, many, percent
from oddarms.search._text import imported_text, in_all_needed, is_proven, nearly, rough

NAMED = 10
"""Outliers that the summary names."""


def summary(account: Account) -> list[Block]:
    """Return what was asked and found, and what the answer is worth."""
    blocks: list[Block] = [Paragraph(_asked(account)), Paragraph(_found(account))]
    if not account.result.complete:
        blocks.append(Paragraph(_open(account)))
    return [*blocks, Paragraph(_guarantee(account)), Paragraph(_assumptions(account))]


def _asked(account: Account) -> str:
    question = account.question
    low, high = map(exact, question.bounds)
    return (
        f"**What was asked.** Which of {question.n:,} things – called arms here – are unusual in"
        f" the long run? An arm can only be sampled: every sample is a number between {low} and"
        f" {high}, differs by chance, and costs something. What counts is an arm's mean, the"
        f" average that very many samples of it would have. {_rule(account)}"
    )


_RULES = {
    "sigma": "mean is that of all arms' means, sd their standard deviation",
    "mad": "median is that of all arms' means, MAD the median of their distances from it",
    "tukey": "Q1 and Q3 are the quartiles of all arms' means, IQR is Q3 - Q1",
    "quantile": "the quantile is that of all arms' means",
    "control": "",
    "absolute": "",
}


def _rule(account: Account) -> str:
    question = account.question
    meaning = _RULES[question.rule]
    one = "That is the threshold; nobody knows it exactly."
    two = "Those are the two thresholds; nobody knows them exactly."
    known = "" if question.rule == "absolute" else f" {two if question.side == 'both' else one}"
    means = f" ({meaning})" if meaning else ""
    return f"An arm is an outlier if its mean lies {question.where}{means}.{known}"


def _found(account: Account) -> tuple[str, ...]:
    result = account.result
    found, n = len(result.outliers), account.n
    known = "" if result.complete else " known to be"
    kind = f"is{known} an outlier" if found == 1 else f"are{known} outliers"
    told = f"{found:,} of {n:,} arms {kind}"
    if result.nothing_stands_out:
        told = f"Nothing stands out: no arm of {n:,} is an outlier"
    told += nearly(account.question)
    if account.question.goal == "budget" and not result.complete:
        told = f"{_best_guess(account)} Proven is less: {told}"
    if result.complete and not result.pulls and not result.imported:
        text = (
            f"**What was found.** {told}. No sample was needed: unless all are equal, no mean"
            f" of only {n:,} can lie more than {math.sqrt(n - 1.0):.2f} standard deviations"
            f" from the mean of all, so arithmetic alone decides."
        )
        return (text,)
    names = [": ", *_names(account, result.outliers)] if found else []
    rest = f". {len(result.normal):,} are normal, {len(result.undecided):,} undecided."
    cost = f" It took {many(account.samples, 'sample')}{imported_text(result)}"
    if account.equal_sampling is not None and account.samples:
        times = account.equal_sampling / account.samples
        cost += (
            f"; sampling every arm equally often takes about {account.equal_sampling:,} for the"
            " same guarantee"
        )
        cost += f", {times:,.0f} times as many" if times >= 2.0 else ""
    far = "" if found else f" {_far(account)}"
    return (f"**What was found.** {told}", *names, f"{rest} {account.thresholds()}{cost}.{far}")


def _best_guess(account: Account) -> str:
    """Return what seems to be so at the end of a budget."""
    guess, doubt = account.result.guess, account.result.doubt
    return (
        f"The best guess is that {many(len(guess), 'arm')} of {account.n:,} are outliers; something"
        f" in it is wrong with probability at most about {doubt:.2g}, which is not proven. The"
        " table of undecided arms has the guesses, the most suspicious first."
    )


def _far(account: Account) -> str:
    """Return how far out any arm can be at most."""
    words = {"upper": "above", "lower": "below"}
    parts = [
        f"more than {account.number(far)} {words[side]}"
        for side, far in account.result.farthest.items()
    ]
    whose = account.question.centre_phrase
    return f"No mean is {' or '.join(parts)} {whose}." if parts else ""


def _names(account: Account, labels: Sequence[object]) -> list[str]:
    parts: list[str] = []
    for label in labels[:NAMED]:
        parts += [", ", account.label(label)]
    if len(labels) > NAMED:
        parts.append(f" and {len(labels) - NAMED:,} more")
    return parts[1:]


def _open(account: Account) -> str:
    result = account.result
    still_open = len(result.undecided)
    text = (
        f"**Not everything is decided.** The status is {account.status}."
        f" {many(still_open, 'arm')} {'is' if still_open == 1 else 'are'} still open, which means"
        f" neither outlier nor normal: the samples so far do not tell. {_decided(account.question)}"
    )
    needed = in_all_needed(result)
    if needed is not None:
        text += f" To decide them, {rough(needed, 'more samples')} would be needed."
    return text


def _decided(question: Question) -> str:
    """Return what is to be said of the arms that are decided."""
    if not is_proven(question):
        return "What is decided is not proven."
    if question.error == "fdr":
        return "What is decided may change if the search goes on."
    return "What is decided carries the full guarantee, and stays decided if the search goes on."


def _guarantee(account: Account) -> str:
    question = account.question
    if not is_proven(question):
        text = (
            "**What the answer is worth.** Nothing is proven. The answer rests on a large-sample"
            " approximation that was calibrated by simulation: on the families of arms that were"
            f" tried it was wrong in at most about {percent(question.delta)} of the searches."
            " Intervals of single arms are proven, the threshold's is not."
        )
    elif question.error == "fdr":
        text = (
            "**What the guarantee means.** If the whole search were done again and again with new"
            f" samples, then on average at most {percent(question.delta / 2.0)} of the arms called"
            " outliers would be normal, and at most as large a share of those called normal"
            " would be outliers. Single names may be wrong."
        )
    else:
        text = _all_right(question)
    if account.question.indifference > 0.0:
        text += (
            f" Arms within {account.number(account.question.indifference)} of the threshold do not"
            " count as mistakes either way: this was allowed, to save samples."
        )
    return text


def _all_right(question: Question) -> str:
    delta = question.risk
    sure = percent(1.0 - delta)
    text = (
        "**What the guarantee means.** The answer is right with probability at least"
        f" {sure}: if the whole search were done again and again with new samples, then in"
        f" at least {sure} of the cases not one arm would be called an outlier or normal"
        " wrongly, and every interval on this page would hold its true value. It does not mean"
        f" that {percent(delta)} of the arms listed here are wrong: in at least {sure} of"
        " the cases none is. And it is a promise about the method, made before the samples were"
        " taken; whether this one answer is among the exceptions no method can say."
    )
    if question.revised:
        text += (
            " The margin or the floor was changed after samples were seen; that is why the"
            f" permitted probability of an error is three times the {percent(question.delta)} that"
            " was asked for."
        )
    return text


def _assumptions(account: Account) -> str:
    low, high = map(exact, account.question.bounds)
    return (
        "**What it rests on.** Samples are independent of one another; each lies between"
        f" {low} and {high}; and an arm's mean stays the same during the search. If arms"
        " drift, answer alike for a common reason, or react to being sampled, the promise"
        " does not hold. What is unusual is measured against these arms only; it says nothing"
        " about why."
    )
