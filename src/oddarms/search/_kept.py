"""What a driver has for its desk, kept until the desk has it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from oddarms.problem import Label
from oddarms.search._patience import PatientDesk
from oddarms.search._tickets import Ticket

MOST_TOLD = 4000

_log = logging.getLogger(__name__)


class Kept:
    """Results to be told and tickets to be given back; each stays until that has succeeded.

    So whatever a call to the desk ends with, a signal too, it can be made again.

    Attributes
    ----------
    untold
        Rewards that the desk does not have, or whose receipt was lost.
    """

    def __init__(self, desk: PatientDesk) -> None:
        self.untold: dict[Ticket, float] = {}
        self._desk = desk
        self._returned: dict[Ticket, str] = {}
        self._told: list[tuple[Ticket, float]] = []
        self._left = 0

    @property
    def unabsorbed(self) -> list[tuple[Label, float]]:
        """The rewards that are not part of the result yet."""
        rewards = {**dict(self._told), **self.untold}
        return [(t.arm, reward) for t, reward in rewards.items() if not self._desk.has_used(t)]

    def give_back(self, tickets: Iterable[Ticket], reason: str) -> None:
        """Take tickets that will have no result."""
        self._returned.update(dict.fromkeys(tickets, reason))

    def hand_over(self) -> None:
        """Tell all rewards and give back all tickets that are here."""
        if self.untold:
            results = list(self.untold.items())
            self._desk.tell_many(results)
            self._told += results
            self.untold.clear()
        for reason in dict.fromkeys(self._returned.values()):
            tickets = [ticket for ticket, said in self._returned.items() if said == reason]
            self._desk.skip_many(tickets, reason)
            for ticket in tickets:
                del self._returned[ticket]
        if len(self._told) > MOST_TOLD:
            self._forget_used()

    def try_to_hand_over(self) -> None:
        """Hand over what there is, if that works; not again if it did not and there is no more."""
        if len(self.untold) + len(self._returned) == self._left:
            return
        try:
            self.hand_over()
        except Exception as error:  # what is still here says enough
            _log.debug("not handed over at the end of a run: %s", error)
        finally:
            self._left = len(self.untold) + len(self._returned)

    def _forget_used(self) -> None:
        self._told = [pair for pair in self._told if not self._desk.has_used(pair[0])]
