"""Tickets that cannot be mistaken, leases by a steady clock, traces of results, states in parts."""

import secrets

import sqlalchemy as sa
from alembic import op

from oddarms.studies._receipts import import_digest, receipt

revision = "0004"
down_revision = "0003"

CHUNK = 10_000


def upgrade() -> None:
    """Change the tables; the saved state is made again from the log.

    Tickets that are out have ids that say nothing of their study: they end here, and their pulls
    are handed out again.
    """
    connection = op.get_bind()
    op.add_column("studies", sa.Column("secret", sa.LargeBinary))
    op.add_column("studies", sa.Column("chain", sa.LargeBinary))
    op.add_column("studies", sa.Column("snapshot", sa.BigInteger))
    op.add_column(
        "studies", sa.Column("claimed", sa.BigInteger, nullable=False, server_default="0")
    )
    op.add_column("tickets", sa.Column("receipt", sa.BigInteger))
    op.add_column("leases", sa.Column("boot", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("results", sa.Column("late", sa.SmallInteger, nullable=False, server_default="0"))
    op.add_column("imports", sa.Column("digest", sa.String(64)))
    op.create_table(
        "snapshots",
        sa.Column("study", sa.BigInteger, primary_key=True),
        sa.Column("snapshot", sa.BigInteger, primary_key=True),
        sa.Column("part", sa.BigInteger, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    connection.execute(sa.text("DELETE FROM leases"))
    connection.execute(sa.text("UPDATE studies SET position = 0, taken = 0"))
    connection.execute(sa.text(_LATE))
    _give_secrets(connection)
    _give_receipts(connection)
    _give_digests(connection)
    op.drop_column("studies", "state")
    op.drop_column("tickets", "expires")
    for column in ("pulls", "mean", "decision"):
        op.drop_column("arms", column)


_LATE = """
UPDATE results SET late = 1 WHERE ticket IS NOT NULL AND told > (
    SELECT t.expires FROM tickets t WHERE t.study = results.study AND t.number = results.ticket
)
"""


def _give_secrets(connection: sa.Connection) -> None:
    for (number,) in list(connection.execute(sa.text("SELECT id FROM studies"))):
        connection.execute(
            sa.text("UPDATE studies SET secret = :secret WHERE id = :number"),
            {"number": number, "secret": secrets.token_bytes(16)},
        )


def _give_receipts(connection: sa.Connection) -> None:
    after = 0
    while True:
        rows = connection.execute(
            sa.text(
                "SELECT number, study, ticket, reward FROM results"
                " WHERE number > :after AND ticket IS NOT NULL ORDER BY number LIMIT :most"
            ),
            {"after": after, "most": CHUNK},
        ).all()
        if not rows:
            return
        after = rows[-1][0]
        connection.execute(
            sa.text(
                "UPDATE tickets SET receipt = :receipt WHERE study = :study AND number = :ticket"
            ),
            [
                {"study": study, "ticket": ticket, "receipt": receipt(ticket, reward)}
                for _, study, ticket, reward in rows
            ],
        )


def _give_digests(connection: sa.Connection) -> None:
    for study, batch in list(connection.execute(sa.text("SELECT study, batch FROM imports"))):
        rows = connection.execute(
            sa.text(
                "SELECT arm, reward FROM results WHERE study = :study AND batch = :batch"
                " ORDER BY number"
            ),
            {"study": study, "batch": batch},
        )
        connection.execute(
            sa.text("UPDATE imports SET digest = :digest WHERE study = :study AND batch = :batch"),
            {"study": study, "batch": batch, "digest": import_digest(row for row in rows)},
        )


def downgrade() -> None:
    """Refuse: ids that were handed out would not be known any more."""
    raise RuntimeError("a storage cannot be brought back to schema 0003")
