-- 0024_reviews.sql: reviews of agents' work by other agents, and whether a person has approved the plan of a run.

CREATE TABLE review (
    number     INTEGER PRIMARY KEY,
    workspace  INTEGER NOT NULL,
    owner      TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    comment    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    decided_at INTEGER
) STRICT;
CREATE INDEX review_owner ON review (workspace, owner, number);

ALTER TABLE run ADD COLUMN plan_approved INTEGER;
