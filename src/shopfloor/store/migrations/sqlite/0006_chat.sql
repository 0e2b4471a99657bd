-- 0006_chat.sql: what people say to the assistant, and how their deleted tasks and ended sessions are found.

CREATE TABLE conversation (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    owner      TEXT NOT NULL,           -- the user; every statement names it
    title      TEXT NOT NULL,           -- the beginning of the first message
    state      TEXT NOT NULL,           -- JSON: which deletions were asked about, and which were agreed to
    busy_until INTEGER,            -- set while a turn is under way, by a process that may die
    busy_by    INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX conversation_owner ON conversation (workspace, owner, updated_at, id);

CREATE TABLE chat_message (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace    INTEGER NOT NULL,
    owner        TEXT NOT NULL,
    conversation INTEGER NOT NULL,
    role         TEXT NOT NULL,         -- user, assistant
    text         TEXT NOT NULL,
    tool_calls   TEXT,                  -- JSON, on answers of the assistant
    error        TEXT,                  -- a code, where the turn failed
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_message_conversation ON chat_message (workspace, owner, conversation, id);

CREATE INDEX task_board_deleted ON task (workspace, kind, board, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX token_page ON token (workspace, expires_at) WHERE kind = 'page';
CREATE INDEX person_removed ON person (workspace, removed_at) WHERE removed_at IS NOT NULL;
