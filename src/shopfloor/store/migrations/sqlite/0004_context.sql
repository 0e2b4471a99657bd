-- 0004_context.sql: what the project knows: what was learned, what was read, and what can be found where.

CREATE TABLE discovery (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace     INTEGER NOT NULL REFERENCES workspace (id),
    type          TEXT    NOT NULL,
    content       TEXT    NOT NULL,
    module        TEXT,
    author        TEXT    NOT NULL,
    session       TEXT,
    supersedes    INTEGER,
    superseded_by INTEGER,
    digest        BLOB    NOT NULL,        -- of what was said: saying it twice is saying it once
    created_at    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX discovery_said ON discovery (workspace, digest);
CREATE INDEX discovery_written ON discovery (workspace, created_at);

-- The files that a discovery is about, as they were then: when they change, it may be outdated.
CREATE TABLE discovery_file (
    workspace INTEGER NOT NULL,
    discovery INTEGER NOT NULL,
    path      TEXT    NOT NULL,
    digest    BLOB    NOT NULL,
    PRIMARY KEY (workspace, discovery, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE file_access (
    workspace INTEGER NOT NULL,
    path      TEXT    NOT NULL,
    count     INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    PRIMARY KEY (workspace, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_access_most ON file_access (workspace, count);

-- What agents decided themselves is rare among the rows of the log, and searched for.
CREATE INDEX decision_manual ON decision (workspace, created_at) WHERE kind = 'manual';

-- The files of a project (its root) as they were when they were indexed.
CREATE TABLE indexed_file (
    workspace INTEGER NOT NULL,
    root      TEXT    NOT NULL,
    path      TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    stamp     TEXT    NOT NULL,            -- size and time; empty when it was written while it was read
    digest    BLOB    NOT NULL,
    language  TEXT    NOT NULL,
    module    TEXT    NOT NULL,
    role      TEXT    NOT NULL,
    modified  INTEGER NOT NULL,
    PRIMARY KEY (workspace, root, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX indexed_file_name ON indexed_file (workspace, root, name);

-- Everything that can be found: a piece of a file, or something that somebody wrote. The text itself stays where it is.
CREATE TABLE passage (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    root       TEXT    NOT NULL,           -- empty for what was written
    source     TEXT    NOT NULL,
    ref        TEXT    NOT NULL,           -- the path, or the number of what was written
    ordinal    INTEGER NOT NULL,
    type       TEXT    NOT NULL,
    module     TEXT,
    name       TEXT    NOT NULL,
    start_line INTEGER NOT NULL,
    end_line   INTEGER NOT NULL,
    owner      TEXT,                       -- who alone may find it; of mail the sender, beside its recipients
    changed_at INTEGER NOT NULL,
    digest     BLOB    NOT NULL            -- of the text that a model sees
) STRICT;
CREATE UNIQUE INDEX passage_place ON passage (workspace, root, source, ref, ordinal);
CREATE INDEX passage_digest ON passage (workspace, digest);
CREATE INDEX passage_named ON passage (workspace, root, name);
CREATE INDEX passage_written ON passage (workspace, source, changed_at) WHERE root = '';

-- What was written is brought into the index by when it changed.
-- Partial, so that only the query that says so takes it: others would find it more selective than it is.
CREATE INDEX task_written ON task (workspace, kind, updated_at, number) WHERE kind <> 'list';
CREATE INDEX mail_written ON mail (workspace, created_at, id);

CREATE VIRTUAL TABLE passage_words USING fts5 (
    name, path, signature, body, content = '', contentless_delete = 1, tokenize = 'porter unicode61'
);

-- Made once for each text and model, wherever the text occurs.
CREATE TABLE vector (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL,
    model     TEXT    NOT NULL,
    digest    BLOB    NOT NULL,
    value     BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX vector_of ON vector (workspace, model, digest);
CREATE INDEX vector_made ON vector (workspace, model, id);
