"""Studies, their arms, and the log: tickets, results, skips, conflicts."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Number = sa.BigInteger().with_variant(
    sa.Integer, "sqlite"
)  # only INTEGER counts up by itself there


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "studies",
        sa.Column("id", Number, primary_key=True, autoincrement=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("tickets", sa.BigInteger, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("taken", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary),
        sqlite_autoincrement=True,  # a deleted study's workers must not reach the next one
    )
    op.create_table(
        "arms",
        sa.Column("study", sa.BigInteger, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("label_key", sa.String(32), nullable=False),
        sa.Column("pulls", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("mean", sa.Float),
        sa.Column("decision", sa.SmallInteger, nullable=False, server_default="0"),
    )
    op.create_index("arms_by_label", "arms", ["study", "label_key"])
    op.create_table(
        "tickets",
        sa.Column("study", sa.BigInteger, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("arm", sa.BigInteger, nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column("asked", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("study", sa.BigInteger, primary_key=True),
        sa.Column("ticket", sa.BigInteger, primary_key=True),
        sa.Column("arm", sa.BigInteger, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_table(
        "results",
        sa.Column("number", Number, primary_key=True, autoincrement=True),
        sa.Column("study", sa.BigInteger, nullable=False),
        sa.Column("ticket", sa.BigInteger),
        sa.Column("arm", sa.BigInteger, nullable=False),
        sa.Column("reward", sa.Float(53), nullable=False),
        sa.Column("batch", sa.BigInteger),
        sa.Column("worker", sa.Text),
        sa.Column("told", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("results_by_ticket", "results", ["study", "ticket"], unique=True)
    op.create_index("results_in_order", "results", ["study", "number"])
    op.create_table(
        "skips",
        sa.Column("study", sa.BigInteger, primary_key=True),
        sa.Column("ticket", sa.BigInteger, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("skipped", sa.Float, nullable=False),
    )
    op.create_table(
        "conflicts",
        sa.Column("number", Number, primary_key=True, autoincrement=True),
        sa.Column("study", sa.BigInteger, nullable=False),
        sa.Column("ticket", sa.BigInteger, nullable=False),
        sa.Column("reward", sa.Float(53), nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column("told", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("conflicts", "skips", "results", "leases", "tickets", "arms", "studies"):
        op.drop_table(table)
