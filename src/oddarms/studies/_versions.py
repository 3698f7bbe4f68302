"""Whose database it is, and which version of our schema it has."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from oddarms.errors import StoreFailed

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
"""Versions of the schema, oldest first; the files of `migrations` have them."""

VERSION_TABLE = "oddarms_version"
FIRST_TABLES = frozenset({"studies", "arms", "tickets", "leases", "results", "skips", "conflicts"})
"""The tables of every version."""
OUR_TABLES = FIRST_TABLES | {
    *("imports", "snapshots", "revisions", "asks", "tokens"),
    VERSION_TABLE,
}

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
    raise _foreign(name, tables)


def upgrade_schema(connection: sa.Connection, name: str) -> None:
    """Bring the schema to the present version, in the transaction of the connection."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    version = version_of(connection, name)  # again, as somebody may have been faster
    if version is not None and VERSION_TABLE not in _tables(connection):
        connection.execute(sa.text(f"ALTER TABLE {_OLD_VERSION_TABLE} RENAME TO {VERSION_TABLE}"))
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with _upgrading:
        config.attributes["connection"] = connection
        config.attributes["version_table"] = VERSION_TABLE
        try:
            command.upgrade(config, REVISIONS[-1])
        except CommandError as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            said = f"{name} cannot be upgraded, and was not changed: {reason}."
            raise StoreFailed(said) from error


def look_at_file(path: str) -> None:
    """Refuse a file with tables of somebody else's, or with more than tables, without a trace.

    To open it properly would already write what another program has left in its log. And a trigger,
    a view or a computed column would run whatever its author likes when we read or write.
    """
    address = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            kinds = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
            names = {str(name) for kind, name in kinds if kind in ("table", "view")}
            tables = {name for name in names if not name.startswith("sqlite_")}
            more = {str(name) for kind, name in kinds if kind not in ("table", "index")}
            for table in tables & OUR_TABLES - more:
                columns = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
                more |= {f"{table}.{column[1]}" for column in columns if column[6]}
    except sqlite3.Error:
        return  # opening it says what is wrong
    if tables and not tables & {VERSION_TABLE, _OLD_VERSION_TABLE}:
        raise _foreign(path, tables)
    if more and tables & OUR_TABLES:
        raise StoreFailed(
            f"{path} must have nothing but tables but has triggers, views or computed columns"
            f" ({', '.join(sorted(more)[:3])}), which were not run: it is not a storage that"
            " oddarms has made."
        )


def _foreign(name: str, tables: set[str]) -> StoreFailed:
    others = ", ".join(sorted(tables - OUR_TABLES or tables)[:3])
    return StoreFailed(
        f"{name} must be a storage of studies, or empty, but is a database with other tables"
        f" ({others}), which were not touched: choose another file or database."
    )


_RELATIONS = """
SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('e', 'a', 'i')
)
"""


def _tables(connection: sa.Connection) -> set[str]:
    """Return the names of all tables, and of what else is like one.

    But for those that belong to something else: SQLite's own, and those of extensions.
    """
    if connection.dialect.name == "postgresql":
        found = connection.exec_driver_sql(_RELATIONS)
    else:
        found = connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        )
    return {str(row[0]) for row in found if not str(row[0]).startswith("sqlite_")}


def _stored(connection: sa.Connection, table: str) -> str:
    found = connection.execute(sa.text(f"SELECT version_num FROM {table}")).scalar()
    return str(found)
