"""Questions that are changed on samples that are there: each change is an event of the log."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table; the saved state, which has let go of late results, is made again."""
    op.create_table(
        "revisions",
        sa.Column("study", sa.BigInteger, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("chain", sa.LargeBinary, nullable=False),
        sa.Column("made", sa.Float, nullable=False),
    )
    for column in ("revisions", "revised"):
        whole = sa.Column(column, sa.BigInteger, nullable=False, server_default="0")
        op.add_column("studies", whole)
    op.execute(
        "UPDATE studies SET position = 0, taken = 0, claimed = 0, chain = NULL, snapshot = NULL"
    )
    op.execute("DELETE FROM snapshots")


def downgrade() -> None:
    """Refuse: a study would not be the one whose question was changed."""
    raise RuntimeError("a storage cannot be brought back to schema 0004")
