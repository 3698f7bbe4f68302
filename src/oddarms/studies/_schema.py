"""The one schema of the database."""

from __future__ import annotations

VERSION = 1

_SCHEMA = """
CREATE TABLE oddarms (version INTEGER NOT NULL);

CREATE TABLE studies (
    id {id},
    name VARCHAR(200) NOT NULL UNIQUE,
    question TEXT NOT NULL,
    seed TEXT NOT NULL,
    secret {bytes} NOT NULL,
    budgets TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    stopped TEXT,
    tickets BIGINT NOT NULL DEFAULT 0,
    conflicts BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE arms (
    study BIGINT NOT NULL {study},
    number BIGINT NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (study, number)
);

CREATE TABLE results (
    id {id},
    study BIGINT NOT NULL {study},
    arm BIGINT NOT NULL,
    place BIGINT NOT NULL,
    reward DOUBLE PRECISION NOT NULL,
    ticket BIGINT,
    asked_place BIGINT,
    worker TEXT,
    told DOUBLE PRECISION NOT NULL{transaction},
    UNIQUE (study, arm, place),
    UNIQUE (study, ticket)
);
CREATE INDEX results_in_order ON results (study, {position});

CREATE TABLE tickets (
    study BIGINT NOT NULL {study},
    number BIGINT NOT NULL,
    arm BIGINT NOT NULL,
    place BIGINT NOT NULL,
    worker TEXT,
    key VARCHAR(64),
    asked DOUBLE PRECISION NOT NULL,
    expires DOUBLE PRECISION NOT NULL,
    boot BIGINT NOT NULL,
    PRIMARY KEY (study, number)
);

CREATE TABLE conflicts (
    id {id},
    study BIGINT NOT NULL {study},
    ticket BIGINT NOT NULL,
    reward DOUBLE PRECISION NOT NULL,
    worker TEXT,
    told DOUBLE PRECISION NOT NULL
);
CREATE INDEX conflicts_of_tickets ON conflicts (study, ticket);

CREATE TABLE workers (
    study BIGINT NOT NULL {study},
    name VARCHAR(1000) NOT NULL,
    handed_out BIGINT NOT NULL,
    results BIGINT NOT NULL,
    first_told DOUBLE PRECISION,
    last_told DOUBLE PRECISION,
    last_seen DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (study, name)
);

CREATE TABLE imports (
    study BIGINT NOT NULL {study},
    key VARCHAR(64) NOT NULL,
    PRIMARY KEY (study, key)
);

CREATE TABLE tokens (
    id VARCHAR(16) PRIMARY KEY,
    digest VARCHAR(64) NOT NULL,
    role VARCHAR(16) NOT NULL,
    study BIGINT {study},
    note TEXT NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    expires DOUBLE PRECISION,
    parent VARCHAR(16)
);
"""

TABLES = frozenset(
    line.split()[2] for line in _SCHEMA.splitlines() if line.startswith("CREATE TABLE")
)

_WORDS = {
    "sqlite": {
        "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "bytes": "BLOB",
        "transaction": "",
        "position": "id",
    },
    "postgresql": {
        "id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
        "transaction": ",\n    xact xid8 NOT NULL DEFAULT pg_current_xact_id()",
        "position": "xact",
    },
}


def statements(dialect: str) -> list[str]:
    """Return the statements that create all tables."""
    words = {**_WORDS[dialect], "study": "REFERENCES studies (id) ON DELETE CASCADE"}
    return [text.strip() for text in _SCHEMA.format(**words).split(";") if text.strip()]
