-- 0023_log_seals.sql: digests of the rows of the log in a chain, so that a later change is found.

CREATE TABLE log_seal (
    workspace  BIGINT NOT NULL,
    number     BIGINT NOT NULL,        -- 1, 2, … without a gap
    first_id   BIGINT NOT NULL,
    last_id    BIGINT NOT NULL,
    row_count  BIGINT NOT NULL,
    previous   BYTEA   NOT NULL,        -- the digest of the seal before
    digest     BYTEA   NOT NULL,        -- of the seal before, the number and the leaves
    leaves     BYTEA   NOT NULL,        -- id and digest of each row; empty once the rows are deleted
    last_at    BIGINT NOT NULL,        -- the time of the newest row
    created_at BIGINT NOT NULL,
    purged_at  BIGINT,                 -- when retention deleted the rows
    PRIMARY KEY (workspace, number)
);
CREATE INDEX log_seal_kept ON log_seal (workspace, number, row_count) WHERE purged_at IS NULL;

-- What retention deletes.
CREATE INDEX transcript_age ON transcript (workspace, created_at);
