"""Imports by a key of the caller's, so that the same file is not counted twice."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "imports",
        sa.Column("study", sa.BigInteger, primary_key=True),
        sa.Column("batch", sa.BigInteger, primary_key=True),
        sa.Column("key", sa.String(64)),
        sa.Column("results", sa.BigInteger, nullable=False),
        sa.Column("imported", sa.Float, nullable=False),
        sa.UniqueConstraint("study", "key"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("imports")
