"""Tickets are places in their arm's sequence; the question has a version, the seed its column."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_PLACES = """
UPDATE results SET place = numbered.place FROM (
    SELECT number, row_number() OVER (PARTITION BY study, arm ORDER BY number) - 1 AS place
    FROM results WHERE ticket IS NOT NULL
) AS numbered WHERE results.number = numbered.number
"""


def upgrade() -> None:
    """Add the columns and fill them.

    Before, an arm's s-th reward was the s-th result recorded: that is its place now. The tickets
    that are out get the places behind. The saved state is made again from the log.
    """
    op.add_column("tickets", sa.Column("place", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("leases", sa.Column("place", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("results", sa.Column("place", sa.BigInteger))
    op.add_column("studies", sa.Column("seed", sa.Text, nullable=False, server_default="0"))
    connection = op.get_bind()
    for statement in (_PLACES, _PLACES_BEHIND, _PLACES_OF_RESULTS, _PLACES_OF_LEASES):
        connection.execute(sa.text(statement))
    connection.execute(sa.text("UPDATE studies SET state = NULL, position = 0, taken = 0"))
    for number, text in list(connection.execute(sa.text("SELECT id, question FROM studies"))):
        question, seed = _versioned(json.loads(text))
        connection.execute(
            sa.text("UPDATE studies SET question = :question, seed = :seed WHERE id = :id"),
            {"question": json.dumps(question), "seed": str(seed), "id": number},
        )


# Those that may still be answered come first, so that the places in front of them are not open.
_PLACES_BEHIND = """
UPDATE tickets SET place = numbered.place FROM (
    SELECT o.study AS study, o.number AS number, coalesce(told.results, 0) - 1 + row_number() OVER (
        PARTITION BY o.study, o.arm
        ORDER BY CASE WHEN l.ticket IS NULL OR s.ticket IS NOT NULL THEN 1 ELSE 0 END,
            o.expires DESC, o.number
    ) AS place
    FROM tickets o
    LEFT JOIN results r ON r.study = o.study AND r.ticket = o.number
    LEFT JOIN leases l ON l.study = o.study AND l.ticket = o.number
    LEFT JOIN skips s ON s.study = o.study AND s.ticket = o.number
    LEFT JOIN (
        SELECT study, arm, count(*) AS results FROM results WHERE ticket IS NOT NULL
        GROUP BY study, arm
    ) AS told ON told.study = o.study AND told.arm = o.arm
    WHERE r.ticket IS NULL
) AS numbered WHERE tickets.study = numbered.study AND tickets.number = numbered.number
"""
_PLACES_OF_RESULTS = """
UPDATE tickets SET place = results.place FROM results
WHERE results.study = tickets.study AND results.ticket = tickets.number
"""
_PLACES_OF_LEASES = """
UPDATE leases SET place = tickets.place FROM tickets
WHERE tickets.study = leases.study AND tickets.number = leases.ticket
"""


def _versioned(old: dict[str, object]) -> tuple[dict[str, object], object]:
    seed = old.pop("seed")
    return {"version": 1, "labels": None, "rule": "sigma", **old}, seed


def downgrade() -> None:
    """Refuse: what a place is cannot be said in the older form."""
    raise RuntimeError("a storage cannot be brought back to schema 0002")
