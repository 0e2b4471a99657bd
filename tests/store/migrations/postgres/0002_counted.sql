-- A function has semicolons of its own; the file is still one migration.
CREATE TABLE note (body TEXT NOT NULL);

CREATE FUNCTION note_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO counter (name, n) VALUES ('notes', 0) ON CONFLICT (name) DO NOTHING;
    UPDATE counter SET n = n + 1 WHERE name = 'notes';
    RETURN NEW;
END $$;

CREATE TRIGGER note_counted AFTER INSERT ON note FOR EACH ROW EXECUTE FUNCTION note_counted();
