-- What the tests of the store write to.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE thing (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL UNIQUE,
    body  BLOB,
    ratio REAL,
    at    INTEGER
) STRICT;

CREATE TABLE part (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    thing_id INTEGER NOT NULL REFERENCES thing (id)
) STRICT;

CREATE TABLE ledger (
    entry INTEGER NOT NULL
) STRICT;
