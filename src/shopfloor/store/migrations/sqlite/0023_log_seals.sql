-- 0023_log_seals.sql: digests of the rows of the log in a chain, so that a later change is found.

CREATE TABLE log_seal (
    workspace  INTEGER NOT NULL,
    number     INTEGER NOT NULL,        -- 1, 2, … without a gap
    first_id   INTEGER NOT NULL,
    last_id    INTEGER NOT NULL,
    row_count  INTEGER NOT NULL,
    previous   BLOB    NOT NULL,        -- the digest of the seal before
    digest     BLOB    NOT NULL,        -- of the seal before, the number and the leaves
    leaves     BLOB    NOT NULL,        -- id and digest of each row; empty once the rows are deleted
    last_at    INTEGER NOT NULL,        -- the time of the newest row
    created_at INTEGER NOT NULL,
    purged_at  INTEGER,                 -- when retention deleted the rows
    PRIMARY KEY (workspace, number)
) STRICT;
CREATE INDEX log_seal_kept ON log_seal (workspace, number, row_count) WHERE purged_at IS NULL;

-- What retention deletes.
CREATE INDEX transcript_age ON transcript (workspace, created_at);
