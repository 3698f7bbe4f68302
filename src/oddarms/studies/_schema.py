"""The one schema of the database. Tables of SQLite are strict: values have their column's type.

Results and tickets are added under a lock of their study (`_database`), so they need no foreign
key, which PostgreSQL would check row by row.
"""

from __future__ import annotations

VERSION = 1

_SCHEMA = """
CREATE TABLE oddarms (version {int} NOT NULL){strict};

CREATE TABLE studies (
    id {id},
    name TEXT NOT NULL UNIQUE,
    question TEXT NOT NULL,
    seed TEXT NOT NULL,
    secret {bytes} NOT NULL,
    budgets TEXT NOT NULL,
    created {real} NOT NULL,
    stopped TEXT,
    status TEXT NOT NULL DEFAULT 'running',
    decided {int} NOT NULL DEFAULT 0,
    outliers {int} NOT NULL DEFAULT 0,
    history {int} NOT NULL DEFAULT 0,
    tickets {int} NOT NULL DEFAULT 0,
    conflicts {int} NOT NULL DEFAULT 0
){strict};

CREATE TABLE arms (
    study {int} NOT NULL {study},
    number {int} NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (study, number)
){strict};

CREATE TABLE results (
    id {id},
    study {int} NOT NULL,
    arm {int} NOT NULL,
    place {int} NOT NULL,
    reward {real} NOT NULL,
    ticket {int},
    asked_place {int},
    worker TEXT,
    told {real} NOT NULL{transaction},
    UNIQUE (study, arm, place),
    UNIQUE (study, ticket)
){strict};
CREATE INDEX results_in_order ON results (study, {position});

CREATE TABLE tickets (
    study {int} NOT NULL,
    number {int} NOT NULL,
    arm {int} NOT NULL,
    place {int} NOT NULL,
    worker TEXT,
    key TEXT,
    asked {real} NOT NULL,
    expires {real} NOT NULL,
    boot {int} NOT NULL,
    PRIMARY KEY (study, number)
){clustered};

CREATE TABLE conflicts (
    id {id},
    study {int} NOT NULL {study},
    ticket {int} NOT NULL,
    reward {real} NOT NULL,
    worker TEXT,
    told {real} NOT NULL
){strict};
CREATE INDEX conflicts_of_tickets ON conflicts (study, ticket);

CREATE TABLE workers (
    study {int} NOT NULL {study},
    name TEXT NOT NULL,
    handed_out {int} NOT NULL,
    results {int} NOT NULL,
    minute {int} NOT NULL,
    recent {int} NOT NULL,
    earlier {int} NOT NULL,
    last_told {real},
    last_seen {real} NOT NULL,
    PRIMARY KEY (study, name)
){strict};

CREATE TABLE imports (
    study {int} NOT NULL {study},
    key TEXT NOT NULL,
    PRIMARY KEY (study, key)
){strict};

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    role TEXT NOT NULL,
    study {int} {study},
    note TEXT NOT NULL,
    made {real} NOT NULL,
    expires {real},
    parent TEXT
){strict};
"""

TABLES = frozenset(
    line.split()[2] for line in _SCHEMA.splitlines() if line.startswith("CREATE TABLE")
)

_WORDS = {
    "sqlite": {
        "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "int": "INTEGER",
        "real": "REAL",
        "bytes": "BLOB",
        "strict": " STRICT",
        "clustered": " STRICT, WITHOUT ROWID",
        "transaction": "",
        "position": "id",
    },
    "postgresql": {
        "int": "BIGINT",
        "real": "DOUBLE PRECISION",
        "id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
        "strict": "",
        "clustered": "",
        "transaction": ",\n    xact xid8 NOT NULL DEFAULT pg_current_xact_id()",
        "position": "xact",
    },
}


def statements(dialect: str) -> list[str]:
    """Return the statements that create all tables."""
    words = {**_WORDS[dialect], "study": "REFERENCES studies (id) ON DELETE CASCADE"}
    return [text.strip() for text in _SCHEMA.format(**words).split(";") if text.strip()]
