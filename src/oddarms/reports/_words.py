"""What the words of the page mean."""

from __future__ import annotations

from oddarms.documents import Block, Heading, Table
from oddarms.reports._account import Account

_ODDS_MEANING = (
    "If somebody had bet, at fair odds and {sample} by {sample}, that the decision is right, the"
    " stake would have grown to so many times what it was, on average over the {things}: those near"
    " the threshold have a larger share of the stake. Were decisions wrong, such an average would"
    " have had a probability of at most one in so many, up to the doubt about the threshold."
)
_OVERLAP_MEANING = (
    "The interval of a decided {thing} may overlap that of the threshold: a decision rests on the"
    " evidence about the two together, which is enough before each of them is known so well."
)


def explanations(account: Account) -> list[Block]:
    """Return the words that stand on the page."""
    subject = account.subject
    average = f"The average of {subject.a_thing}'s {subject.samples} so far"
    distance = f"How far the {subject.rate} is from the estimate of the threshold."
    terms = [
        (subject.mean, f"{average}, an estimate of its true {subject.rate}."),
        ("interval", "All intervals together hold the true values, as said above."),
        ("from the threshold", distance),
    ]
    if account.odds is not None:
        words = {"thing": subject.thing, "things": subject.things, "sample": subject.sample}
        terms.append(("odds", _ODDS_MEANING.format(**words)))
        terms.append(("overlap", _OVERLAP_MEANING.format(**words)))
    table = Table(("word", "meaning"), terms, "Words used on this page", named_rows=True)
    return [Heading("How to read this page"), table]
