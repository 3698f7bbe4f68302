"""What the words of the page mean."""

from __future__ import annotations

from oddarms.documents import Block, Heading, Table
from oddarms.reports._account import Account

_ODDS_MEANING = (
    "If somebody had bet, at fair odds and sample by sample, that the decision is right, the stake"
    " would have grown to so many times what it was, on average over the arms: those near the"
    " threshold have a larger share of the stake. Were decisions wrong, such an average would have"
    " had a probability of at most one in so many, up to the doubt about the threshold."
)
_OVERLAP_MEANING = (
    "The interval of a decided arm may overlap that of the threshold: a decision rests on the"
    " evidence about the two together, which is enough before each of them is known so well."
)


def explanations(account: Account) -> list[Block]:
    """Return the words that stand on the page."""
    terms = [
        ("mean", "The average of an arm's samples so far, an estimate of its true mean."),
        ("interval", "All intervals together hold the true values, as said above."),
        ("from the threshold", "How far the mean is from the estimate of the threshold."),
    ]
    if account.odds is not None:
        terms += [("odds", _ODDS_MEANING), ("overlap", _OVERLAP_MEANING)]
    table = Table(("word", "meaning"), terms, "Words used on this page", named_rows=True)
    return [Heading("How to read this page"), table]
