-- 0007_desk.sql: what the people in charge look for in the log, and which users have a place at the desk.

ALTER TABLE person ADD COLUMN desk TEXT;                              -- READER, HELPER; nothing: no place there
ALTER TABLE decision ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;   -- attempts after the first

-- One row a call, without the calls by which the desk itself looks: what a timeline shows.
CREATE INDEX decision_calls ON decision (workspace, id) WHERE kind <> 'invocation' AND toolset <> 'desk';
CREATE INDEX decision_failed ON decision (workspace, id) WHERE code IS NOT NULL;
CREATE INDEX decision_said ON decision (workspace, id) WHERE kind = 'manual';

-- What the person in charge does not want to hear of for a while: a thread of mail, or everything from somebody.
CREATE TABLE mute (
    workspace INTEGER NOT NULL,
    what      TEXT   NOT NULL,              -- thread:12, or a sender such as agent:NAME
    until     INTEGER NOT NULL,
    PRIMARY KEY (workspace, what)
) STRICT, WITHOUT ROWID;
CREATE INDEX mail_thread ON mail (workspace, thread) WHERE thread IS NOT NULL;
