"""What a database says when it fails, as a sentence, and whether to try again."""

from __future__ import annotations

from typing import NamedTuple

_WENT_AWAY = (
    "the server went away and this call may have been recorded or not: repeat it, what was told"
    " twice counts once"
)
_FULL = "the disk is full; nothing of this call was recorded, everything before it is"
_STARTING = "the server is starting; repeat the call"
_AWAY = "the server cannot be reached"
DAMAGED = "it is damaged; the command `sqlite3 FILE .recover` may save what is left"


class Failure(NamedTuple):
    """A reason in words, whether the same call may succeed later, and whether they are ours."""

    reason: str
    passing: bool
    known: bool = False


# In this order: the first mark that the message has decides.
_LASTING = {
    "readonly": "it cannot be written to",
    "read-only": "it cannot be written to",
    "permission denied": "this user may not do that there",
    "unable to open": "it cannot be opened: the folder must exist and be writable",
    "not a database": "it is not a SQLite file, or it is damaged",
    "malformed": DAMAGED,
    "password authentication": "the user or the password is wrong",
    "no password supplied": "the server wants a password and none was given",
    "no pg_hba.conf entry": "the server does not let this user in from here",
    "does not exist": "there is no such database, user or table",
}
_PASSING = {
    "disk is full": _FULL,
    "no space left": _FULL,
    "disk i/o error": "the disk failed; nothing of this call was recorded",
    "is locked": "another process keeps it locked",
    "lock timeout": "another process keeps it locked",
    "deadlock": "two calls waited for each other; nothing of this one was recorded: repeat it",
    "too many": "the server has no connection left to give",
    "remaining connection slots": "the server has no connection left to give",
    "starting up": _STARTING,
    "not yet accepting": _STARTING,
    "recovery mode": _STARTING,
    "shutting down": "the server is shutting down",
    "connection refused": _AWAY,
    "could not connect": _AWAY,
    "connection failed": _AWAY,
    "connection timeout": _AWAY,
    "server closed the connection": _WENT_AWAY,
    "terminating connection": _WENT_AWAY,
    "connection is lost": _WENT_AWAY,
    "connection is closed": _WENT_AWAY,
    "administrator command": _WENT_AWAY,
    # what psycopg says of a server that was killed between two queries
    "sending query failed": _WENT_AWAY,
    "pipeline mode while busy": _WENT_AWAY,
    "another command is already in progress": _WENT_AWAY,
}


def failure_of(error: object, *, gone: bool = False) -> Failure:
    """Return what an error of the database means.

    Parameters
    ----------
    error
        What the driver has raised.
    gone
        Whether the connection was lost with it.
    """
    text = str(error).lower()
    for reasons, passing in ((_LASTING, False), (_PASSING, True)):
        known = next((reason for mark, reason in reasons.items() if mark in text), None)
        if known is not None:
            return Failure(known, passing, known=True)
    if gone:
        return Failure(_WENT_AWAY, passing=True, known=True)
    return Failure(first_line(error), passing=False)


def first_line(error: object) -> str:
    """Return the first line of what a library says, which may go on for a page."""
    return str(error).strip().partition("\n")[0].rstrip(".")
