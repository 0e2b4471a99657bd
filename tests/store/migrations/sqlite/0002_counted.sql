-- A trigger has semicolons of its own; the file is still one migration.
CREATE TABLE note (body TEXT NOT NULL) STRICT;

CREATE TRIGGER note_counted AFTER INSERT ON note
BEGIN
    INSERT INTO counter (name, n) VALUES ('notes', 0) ON CONFLICT (name) DO NOTHING;
    UPDATE counter SET n = n + 1 WHERE name = 'notes';
END;
