"""From a question to its rule, and from known means to the right answer."""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np

from oddarms.problem import USUAL_K, BoolArray, FloatArray, Question
from oddarms.rules._base import Rule

_CLASSES = {
    "sigma": "oddarms.rules._sigma:Sigma",
    "mad": "oddarms.rules._mad:Mad",
    "tukey": "oddarms.rules._tukey:Tukey",
    "quantile": "oddarms.rules._quantile:Quantile",
    "control": "oddarms.rules._control:Control",
    "absolute": "oddarms.rules._absolute:Absolute",
}


def rule_of(question: Question) -> Rule:
    """Return the rule that a question asks for, as an algorithm sees its rewards.

    They are scaled to [0, 1] and, where only the lower side is asked for, mirrored; a floor then
    is a ceiling of the rewards as they were.
    """
    a, b = question.bounds
    values: dict[str, float] = {"margin": question.margin / (b - a)}
    if question.floor is not None:
        distance = b - question.floor if question.side == "lower" else question.floor - a
        values["floor"] = distance / (b - a)
    if question.rule in USUAL_K:
        values["k"] = question.k
    if question.rule == "control":
        values["index"] = list(question.labels).index(question.control)
    if question.quantile is not None:
        values["share"] = question.quantile
    module, _, name = _CLASSES[question.rule].partition(":")
    rule: Rule = getattr(import_module(module), name)(**values)
    return rule


def true_outliers(question: Question, means: FloatArray) -> dict[str, BoolArray]:
    """Return which known means, in the user's units, are outliers on each side."""
    a, b = question.bounds
    found: dict[str, BoolArray] = {}
    for side in question.sides:
        scaled = (b - means if side == "lower" else means - a) / (b - a)
        found[side] = rule_of(question).outliers(scaled)
    return found


def gaps_to_thresholds(question: Question, means: FloatArray) -> FloatArray:
    """Return how far known means are from the nearest threshold, in the user's units.

    Infinitely far for arms that are no outliers whatever their means.
    """
    a, b = question.bounds
    nearest = np.full(means.size, math.inf)
    for side in question.sides:
        scaled = (b - means if side == "lower" else means - a) / (b - a)
        rule = rule_of(question)
        distance = np.abs(scaled - rule.threshold(scaled)) * (b - a)
        distance[list(rule.exempt)] = math.inf
        nearest = np.minimum(nearest, distance)
    return nearest
