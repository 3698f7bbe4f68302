"""Whose database it is, and which version of our schema it has."""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy as sa

from oddarms.errors import StoreFailed

REVISIONS = ("0001", "0002", "0003", "0004")
"""Versions of the schema, oldest first; the files of `migrations` have them."""

VERSION_TABLE = "oddarms_version"
FIRST_TABLES = frozenset({"studies", "arms", "tickets", "leases", "results", "skips", "conflicts"})
"""The tables of every version."""
OUR_TABLES = FIRST_TABLES | {"imports", "snapshots", VERSION_TABLE}

_OLD_VERSION_TABLE = "alembic_version"  # up to 0003, and of many other applications
_OLD_COLUMNS = frozenset({"name", "question", "created", "tickets", "position", "taken", "state"})

_upgrading = threading.Lock()  # alembic does one at a time


def version_of(connection: sa.Connection, name: str) -> str | None:
    """Return the version of our schema, None for a database without tables; else refuse it."""
    tables = _tables(connection)
    if not tables:
        return None
    if VERSION_TABLE in tables and tables >= FIRST_TABLES:
        return _stored(connection, VERSION_TABLE)
    if _OLD_VERSION_TABLE in tables and tables - {_OLD_VERSION_TABLE} <= OUR_TABLES:
        version = _stored(connection, _OLD_VERSION_TABLE)
        columns = {column["name"] for column in sa.inspect(connection).get_columns("studies")}
        if version in REVISIONS[:3] and tables >= FIRST_TABLES and columns >= _OLD_COLUMNS:
            return version
    others = ", ".join(sorted(tables - OUR_TABLES or tables)[:3])
    raise StoreFailed(
        f"{name} must be a storage of studies, or empty, but is a database with other tables"
        f" ({others}), which were not touched: choose another file or database."
    )


def upgrade_schema(connection: sa.Connection, name: str) -> None:
    """Bring the schema to the present version, in the transaction of the connection."""
    from alembic import command
    from alembic.config import Config

    version = version_of(connection, name)  # again, as somebody may have been faster
    if version is not None and VERSION_TABLE not in _tables(connection):
        connection.execute(sa.text(f"ALTER TABLE {_OLD_VERSION_TABLE} RENAME TO {VERSION_TABLE}"))
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with _upgrading:
        config.attributes["connection"] = connection
        config.attributes["version_table"] = VERSION_TABLE
        command.upgrade(config, REVISIONS[-1])


def _tables(connection: sa.Connection) -> set[str]:
    """Return the names of all tables and views; those that SQLite itself keeps are left out."""
    inspector = sa.inspect(connection)
    names = [*inspector.get_table_names(), *inspector.get_view_names()]
    return {name for name in names if not name.startswith("sqlite_")}


def _stored(connection: sa.Connection, table: str) -> str:
    found = connection.execute(sa.text(f"SELECT version_num FROM {table}")).scalar()
    return str(found)
