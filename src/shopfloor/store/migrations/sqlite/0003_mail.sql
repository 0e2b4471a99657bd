-- 0003_mail.sql: mail between agents and people, what became of it, and what recovery has to know of agents.

-- A party is spelled agent:NAME, human, or floor (the server itself).
CREATE TABLE mail (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   INTEGER NOT NULL,
    sender      TEXT    NOT NULL,
    sender_type TEXT    NOT NULL,           -- as the server knew it when the mail was sent
    reply_to    TEXT,                       -- who gets the reply, when it is not the sender
    subject     TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    thread      INTEGER,                    -- the first mail of the thread, when it is not this one
    in_reply_to INTEGER,
    importance  TEXT    NOT NULL,           -- low, normal, high
    ack_by      INTEGER,                    -- when it has to be acknowledged at the latest
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX mail_sender ON mail (workspace, sender, id);

-- One row for each recipient: stored with the mail, then delivered, read, acted on.
CREATE TABLE receipt (
    workspace    INTEGER NOT NULL,
    recipient    TEXT    NOT NULL,
    mail         INTEGER NOT NULL,
    undelivered  INTEGER NOT NULL DEFAULT 1,
    unread       INTEGER NOT NULL DEFAULT 1,
    waiting      INTEGER NOT NULL DEFAULT 1,   -- until the recipient has done what the mail wants
    wanted       INTEGER NOT NULL,             -- 1: reading is not enough, it wants an answer or an acknowledgement
    overdue_at   INTEGER,                   -- when to escalate; nothing once that is done or needless
    delivered_at INTEGER,
    read_at      INTEGER,
    acted_at     INTEGER,
    PRIMARY KEY (workspace, recipient, mail)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipt_mail ON receipt (workspace, mail);
-- The column that is always 1 makes SQLite choose these before the primary key.
CREATE INDEX receipt_undelivered ON receipt (workspace, recipient, undelivered, mail) WHERE undelivered = 1;
CREATE INDEX receipt_unread ON receipt (workspace, recipient, unread, mail) WHERE unread = 1;
CREATE INDEX receipt_waiting ON receipt (workspace, recipient, waiting, mail) WHERE waiting = 1;
CREATE INDEX receipt_overdue ON receipt (workspace, overdue_at) WHERE overdue_at IS NOT NULL;

-- How much is unread, kept in a few slots so that many senders do not wait for one row.
CREATE TABLE inbox (
    workspace INTEGER NOT NULL,
    owner     TEXT    NOT NULL,
    slot      INTEGER NOT NULL,
    unread    INTEGER NOT NULL,
    PRIMARY KEY (workspace, owner, slot)
) STRICT, WITHOUT ROWID;

-- A mail that asks a person something; the mail's number is the ticket.
CREATE TABLE question (
    workspace   INTEGER NOT NULL,
    mail        INTEGER NOT NULL,
    asker       TEXT    NOT NULL,
    options     TEXT    NOT NULL,           -- a JSON list; empty where any answer will do
    deadline    INTEGER NOT NULL,
    answer      TEXT,
    answered_by TEXT,
    answered_at INTEGER,
    reply       INTEGER,                    -- the mail that brings the answer
    PRIMARY KEY (workspace, mail)
) STRICT, WITHOUT ROWID;

-- Escalations are told by mail; when too many come at once, several share one.
ALTER TABLE escalation ADD COLUMN recipient TEXT;
ALTER TABLE escalation ADD COLUMN mail INTEGER;
CREATE INDEX escalation_mail ON escalation (workspace, mail) WHERE mail IS NOT NULL;
CREATE INDEX escalation_recipient ON escalation (workspace, recipient, first_at) WHERE recipient IS NOT NULL;

ALTER TABLE agent ADD COLUMN waiting_until INTEGER;            -- the end of its open wait for mail or an answer
ALTER TABLE agent ADD COLUMN failed_at INTEGER;                -- it crashed too often
ALTER TABLE agent ADD COLUMN retry_at INTEGER;                 -- from then on it may try again
ALTER TABLE agent ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
CREATE INDEX agent_failed ON agent (workspace, retry_at) WHERE failed_at IS NOT NULL;

-- Processes of agents that ended without a stop reason, for as long as they count.
CREATE TABLE crash (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    agent      TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX crash_agent ON crash (workspace, agent, created_at);

-- The leases: what agents have in hand.
CREATE INDEX task_held ON task (workspace, kind, state, assignee, number)
    WHERE state IN ('ASSIGNED', 'IN_PROGRESS') AND deleted_at IS NULL;

-- Tasks of all boards of a kind, and those in one state: what waits for review.
CREATE INDEX task_kind ON task (workspace, kind, number) WHERE deleted_at IS NULL;
CREATE INDEX task_anywhere ON task (workspace, kind, state, number) WHERE deleted_at IS NULL;
DROP INDEX task_assignee;
CREATE INDEX task_assignee ON task (workspace, kind, assignee, number)
    WHERE assignee IS NOT NULL AND deleted_at IS NULL;
