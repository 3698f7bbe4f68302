"""Tickets are places in their arm's sequence; the question has a version, the seed its column."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

PLACES = """
UPDATE {table} SET place = numbered.place FROM (
    SELECT {key} AS id, row_number() OVER (PARTITION BY study, arm ORDER BY {key}) - 1 AS place
    FROM {table} WHERE {rows}
) AS numbered WHERE {table}.{key} = numbered.id AND {rows}
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
    connection.execute(
        sa.text(PLACES.format(table="results", key="number", rows="ticket IS NOT NULL"))
    )
    for table, key in (("tickets", "number"), ("leases", "ticket")):
        connection.execute(sa.text(_PLACES_BEHIND.format(table=table, key=key)))
    connection.execute(sa.text(_PLACES_OF_RESULTS))
    connection.execute(sa.text("UPDATE studies SET state = NULL, position = 0, taken = 0"))
    for number, text in list(connection.execute(sa.text("SELECT id, question FROM studies"))):
        question, seed = _versioned(json.loads(text))
        connection.execute(
            sa.text("UPDATE studies SET question = :question, seed = :seed WHERE id = :id"),
            {"question": json.dumps(question), "seed": str(seed), "id": number},
        )


_PLACES_BEHIND = """
UPDATE {table} SET place = numbered.place FROM (
    SELECT o.study AS study, o.{key} AS id,
        row_number() OVER (PARTITION BY o.study, o.arm ORDER BY o.{key}) - 1
        + (SELECT count(*) FROM results r WHERE r.study = o.study AND r.arm = o.arm
           AND r.ticket IS NOT NULL) AS place
    FROM {table} o WHERE NOT EXISTS
        (SELECT 1 FROM results r WHERE r.study = o.study AND r.ticket = o.{key})
) AS numbered WHERE {table}.study = numbered.study AND {table}.{key} = numbered.id
"""
_PLACES_OF_RESULTS = """
UPDATE tickets SET place = results.place FROM results
WHERE results.study = tickets.study AND results.ticket = tickets.number
"""


def _versioned(old: dict[str, object]) -> tuple[dict[str, object], object]:
    seed = old.pop("seed")
    return {"version": 1, "labels": None, "rule": "sigma", **old}, seed


def downgrade() -> None:
    """Refuse: what a place is cannot be said in the older form."""
    raise RuntimeError("a storage cannot be brought back to schema 0002")
