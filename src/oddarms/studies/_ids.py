"""The ids of tickets: a number, and a proof that this study has handed it out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

from oddarms.errors import InvalidParameter
from oddarms.search import Ticket
from oddarms.text import shown

SECRET_BYTES = 16
PROOF_BYTES = 10
MOST_TICKETS = 2**63 - 1

_FORM = re.compile(r"([1-9][0-9]{0,18})-([a-z2-7]{16})")


def new_secret() -> bytes:
    """Return the secret of a new study."""
    return secrets.token_bytes(SECRET_BYTES)


def number_in(ticket: Ticket) -> int:
    """Return the number of a ticket that a study has handed out."""
    return int(ticket.id.partition("-")[0])


class TicketIds:
    """Makes and reads the ids of one study, such as ``17-mzxw6ytboi4dgnbt``.

    The second part is a keyed hash of the number, 80 bits long, so that nobody can guess an id,
    and one of another study, also of a deleted one with the same name, is recognised.
    """

    def __init__(self, study: str, secret: bytes) -> None:
        self._study = study
        self._secret = secret

    def of(self, number: int) -> str:
        """Return the id of a ticket."""
        return f"{number}-{self._proof(number)}"

    def number(self, ticket: Ticket | str) -> int:
        """Return the number of a ticket of this study."""
        text = ticket.id if isinstance(ticket, Ticket) else ticket
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None or int(found[1]) > MOST_TICKETS:
            raise InvalidParameter(
                "ticket must be an id that `ask` has given, such as 17-mzxw6ytboi4dgnbt, but got"
                f" {shown(repr(text)):.60}."
            )
        number = int(found[1])
        if not hmac.compare_digest(found[2], self._proof(number)):
            raise InvalidParameter(
                f"ticket must be one of the study {self._study!r} but {text} is not: it is of"
                " another study, perhaps of a deleted one with this name."
            )
        return number

    def _proof(self, number: int) -> str:
        digest = hashlib.blake2b(
            number.to_bytes(8, "big"), key=self._secret, digest_size=PROOF_BYTES
        ).digest()
        return base64.b32encode(digest).decode().lower()
