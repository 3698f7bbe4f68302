"""What a server needs: tokens, a stop, and calls that may be repeated by a key."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the tables and the column."""
    op.add_column("studies", sa.Column("stopped", sa.Text))
    op.create_table(
        "asks",
        sa.Column("study", sa.BigInteger, primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("asked", sa.Float, nullable=False),
    )
    op.create_index("asks_by_time", "asks", ["study", "asked"])
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("study", sa.BigInteger),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("made", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("parent", sa.String(16)),
    )
    op.create_index("conflicts_in_order", "conflicts", ["study", "number"])


def downgrade() -> None:
    """Refuse: tokens that were handed out would not be known any more."""
    raise RuntimeError("a storage cannot be brought back to schema 0005")
