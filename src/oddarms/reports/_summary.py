"""The answer in words, for somebody who has never heard of a bandit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oddarms.documents import Block, Paragraph
from oddarms.problem import Question
from oddarms.reports._account import Account
from oddarms.reports._formats import exact, many, percent
from oddarms.search import ARMS, Subject
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
    subject = account.subject
    named = f"{subject.things} are {subject.odd_ones}"
    if subject is ARMS:
        named = "things – called arms here – are unusual"
    number = subject.counts or f"a number between {low} and {high}"
    return (
        f"**What was asked.** Which of {question.n:,} {named} in the long run?"
        f" {subject.a_thing.capitalize()} can only be sampled: every {subject.sample} is {number},"
        f" differs by chance, and costs something. What counts is {subject.a_thing}'s"
        f" {subject.rate}, the average that very many {subject.samples} of it would have."
        f" {_rule(account)}"
    )


_RULES = {
    "sigma": "mean is that of {all_means}, sd their standard deviation",
    "mad": "median is that of {all_means}, MAD the median of their distances from it",
    "tukey": "Q1 and Q3 are the quartiles of {all_means}, IQR is Q3 - Q1",
    "quantile": "the quantile is that of {all_means}",
    "control": "",
    "absolute": "",
}


def _rule(account: Account) -> str:
    question, subject = account.question, account.subject
    meaning = _RULES[question.rule].format(all_means=f"all {subject.things}' {subject.rates}")
    known = " That is the threshold; nobody knows it exactly."
    if question.side == "both":
        known = " Those are the two thresholds; nobody knows them exactly."
    if question.rule == "absolute":
        known = ""
    means = f" ({meaning})" if meaning else ""
    one = subject.a_thing.capitalize()
    return f"{one} is {subject.odd} if its {subject.rate} lies {question.where}{means}.{known}"


def _found(account: Account) -> tuple[str, ...]:
    result, subject = account.result, account.subject
    found, n = len(result.outliers), account.n
    told = (
        f"{found:,} of {n:,} {subject.things} {subject.are_odd(found, known=not result.complete)}"
    )
    if result.nothing_stands_out:
        told = f"Nothing stands out: no {subject.thing} of {n:,} is {subject.odd}"
    told += nearly(account.question)
    if account.question.goal == "budget" and not result.complete:
        told = f"{_best_guess(account)} Proven is less: {told}"
    if result.complete and not result.pulls and not result.imported:
        text = (
            f"**What was found.** {told}. No {subject.sample} was needed: unless all are equal, no"
            f" {subject.rate} of only {n:,} can lie more than {math.sqrt(n - 1.0):.2f}"
            f" standard deviations from the mean of all, so arithmetic alone decides."
        )
        return (text,)
    names = [": ", *_names(account, result.outliers)] if found else []
    rest = f". {len(result.normal):,} are normal, {len(result.undecided):,} undecided."
    cost = f" It took {many(account.samples, subject.sample)}{imported_text(result)}"
    if account.equal_sampling is not None and account.samples:
        times = account.equal_sampling / account.samples
        cost += (
            f"; sampling every {subject.thing} equally often takes about"
            f" {account.equal_sampling:,} for the same guarantee"
        )
        cost += f", {times:,.0f} times as many" if times >= 2.0 else ""
    far = "" if found else f" {_far(account)}"
    return (f"**What was found.** {told}", *names, f"{rest} {account.thresholds()}{cost}.{far}")


def _best_guess(account: Account) -> str:
    """Return what seems to be so at the end of a budget."""
    guess, doubt, subject = len(account.result.guess), account.result.doubt, account.subject
    return (
        f"The best guess is that {guess:,} of {account.n:,} {subject.things}"
        f" {subject.are_odd(guess)}; something in it is wrong with probability at most about"
        f" {doubt:.2g}, which is not proven. The table of undecided {subject.things} has the"
        " guesses, the most suspicious first."
    )


def _far(account: Account) -> str:
    """Return how far out any arm can be at most."""
    words = {"upper": "above", "lower": "below"}
    parts = [
        f"more than {account.number(far)} {words[side]}"
        for side, far in account.result.farthest.items()
    ]
    whose = account.question.centre_phrase
    return f"No {account.subject.rate} is {' or '.join(parts)} {whose}." if parts else ""


def _names(account: Account, labels: Sequence[object]) -> list[str]:
    parts: list[str] = []
    for label in labels[:NAMED]:
        parts += [", ", account.label(label)]
    if len(labels) > NAMED:
        parts.append(f" and {len(labels) - NAMED:,} more")
    return parts[1:]


def _open(account: Account) -> str:
    result, subject = account.result, account.subject
    still_open = len(result.undecided)
    text = (
        f"**Not everything is decided.** The status is {account.status}."
        f" {many(still_open, subject.thing)} {'is' if still_open == 1 else 'are'} still open, which"
        f" means neither {subject.guess} nor normal: the {subject.samples} so far do not tell."
        f" {_decided(account.question)}"
    )
    needed = in_all_needed(result)
    if needed is not None:
        text += f" To decide them, {rough(needed, f'more {subject.samples}')} would be needed."
    return text


def _decided(question: Question) -> str:
    """Return what is to be said of the arms that are decided."""
    if not is_proven(question):
        return "What is decided is not proven."
    if question.error == "fdr":
        return "What is decided may change if the search goes on."
    return "What is decided carries the full guarantee, and stays decided if the search goes on."


def _guarantee(account: Account) -> str:
    question, subject = account.question, account.subject
    if not is_proven(question):
        text = (
            "**What the answer is worth.** Nothing is proven. The answer rests on a large-sample"
            " approximation that was calibrated by simulation: on the families of arms that were"
            f" tried it was wrong in at most about {percent(question.delta)} of the searches."
            f" Intervals of single {subject.things} are proven, the threshold's is not."
        )
    elif question.error == "fdr":
        text = (
            "**What the guarantee means.** If the whole search were done again and again with new"
            f" {subject.samples}, then on average at most {percent(question.delta / 2.0)} of the"
            f" {subject.things} called {subject.odd_ones} would be normal, and at most as large a"
            f" share of those called normal would be {subject.odd_ones}. Single names may be wrong."
        )
    else:
        text = _all_right(question, subject)
    if question.indifference > 0.0:
        text += (
            f" {subject.things.capitalize()} within {account.number(question.indifference)} of the"
            " threshold do not count as mistakes either way: this was allowed, to save samples."
        )
    return text


def _all_right(question: Question, subject: Subject) -> str:
    delta = question.risk
    sure = percent(1.0 - delta)
    text = (
        "**What the guarantee means.** The answer is right with probability at least"
        f" {sure}: if the whole search were done again and again with new {subject.samples}, then"
        f" in at least {sure} of the cases not one {subject.thing} would be called {subject.odd} or"
        " normal wrongly, and every interval on this page would hold its true value. It does not"
        f" mean that {percent(delta)} of the {subject.things} listed here are wrong: in at least"
        f" {sure} of the cases none is. And it is a promise about the method, made before the"
        f" {subject.samples} were taken; whether this one answer is among the exceptions no method"
        " can say."
    )
    if question.revised:
        text += (
            f" The margin or the floor was changed after {subject.samples} were seen; that is why"
            f" the permitted probability of an error is three times the {percent(question.delta)}"
            " that was asked for."
        )
    return text


def _assumptions(account: Account) -> str:
    low, high = map(exact, account.question.bounds)
    subject = account.subject
    return (
        f"**What it rests on.** {subject.samples.capitalize()} are independent of one another; each"
        f" lies between {low} and {high}; and {subject.a_thing}'s {subject.rate} stays the same"
        f" during the search. If {subject.things} drift, answer alike for a common reason, or react"
        " to being sampled, the promise does not hold. What is unusual is measured against these"
        f" {subject.things} only; it says nothing about why."
    )
