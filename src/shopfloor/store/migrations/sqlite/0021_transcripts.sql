-- 0021_transcripts.sql: what agents said, thought, planned, called and asked in their sessions; and a run's first state.

-- One row per entry. `owner` is a run or an agent (run:NAME, agent:NAME), `number` the position within its transcript.
-- An entry grows while the agent works on it; `revision` is new with each change, so that viewers fetch only changes.
CREATE TABLE transcript (
    workspace  INTEGER NOT NULL,
    owner      TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    session    TEXT    NOT NULL,
    iteration  INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    result     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, owner, number)
) STRICT;
CREATE INDEX transcript_revision ON transcript (workspace, owner, revision);
CREATE INDEX transcript_iteration ON transcript (workspace, owner, iteration, number);

-- The files of the project before the first iteration, as a tree of git; nothing without a repository.
ALTER TABLE run ADD COLUMN start_tree TEXT;
