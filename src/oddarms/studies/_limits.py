"""What a study takes at most, wherever it is: a server and its clients agree by this file."""

from __future__ import annotations

MOST_TEXT = 1000
"""Characters of a worker's name, and of a reason."""
MOST_KEY = 64
"""Characters of a key by which a call may be repeated."""
MOST_TICKET_ID = 60
"""Characters of what may be the id of a ticket."""

MOST_RESULTS = MOST_TICKETS = 10_000
"""Of one request to a server."""
AT_A_TIME = MOST_RESULTS // 2
"""Results or tickets that our client sends in one, or asks for."""
