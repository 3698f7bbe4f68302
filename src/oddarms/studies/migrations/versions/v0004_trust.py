"""Tickets that cannot be mistaken, leases by a steady clock, traces of results, states in parts."""

import secrets

import sqlalchemy as sa
from alembic import op

from oddarms.studies._receipts import import_digest, origin, whole_receipt

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
    op.add_column("studies", sa.Column("origin", sa.String(64)))
    op.add_column(
        "studies", sa.Column("imports", sa.BigInteger, nullable=False, server_default="0")
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
    found = connection.execute(sa.text("SELECT id, question, seed FROM studies")).all()
    for number, question, seed in found:
        secret = secrets.token_bytes(16)
        labels = connection.execute(
            sa.text("SELECT label FROM arms WHERE study = :number ORDER BY number"),
            {"number": number},
        )
        connection.execute(
            sa.text(
                "UPDATE studies SET secret = :secret, origin = :origin, imports ="
                " (SELECT count(*) FROM imports i WHERE i.study = :number) WHERE id = :number"
            ),
            {
                "number": number,
                "secret": secret,
                "origin": origin(question, int(seed), secret, (str(row[0]) for row in labels)),
            },
        )


def _give_receipts(connection: sa.Connection) -> None:
    after = (0, 0)
    while True:
        rows = connection.execute(
            sa.text(
                "SELECT t.study, t.number, t.arm, t.place, r.reward FROM tickets t"
                " LEFT JOIN results r ON r.study = t.study AND r.ticket = t.number"
                " WHERE (t.study, t.number) > (:study, :number)"
                " ORDER BY t.study, t.number LIMIT :most"
            ),
            {"study": after[0], "number": after[1], "most": CHUNK},
        ).all()
        if not rows:
            return
        after = (rows[-1][0], rows[-1][1])
        connection.execute(
            sa.text(
                "UPDATE tickets SET receipt = :receipt WHERE study = :study AND number = :ticket"
            ),
            [
                {"study": row[0], "ticket": row[1], "receipt": whole_receipt(*row[1:])}
                for row in rows
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
