-- 0008_search.sql: Documents that change mark themselves for the index; its tables are named after the glossary.

-- One row per change of a document, written with the change. The index takes rows, indexes and deletes them in one
-- transaction. A second change adds a second row, so that no writer waits for a row that the index is deleting.
CREATE TABLE index_mark (
    id        INTEGER PRIMARY KEY,
    workspace INTEGER NOT NULL,
    source    TEXT    NOT NULL,
    ref       TEXT    NOT NULL
) STRICT;
CREATE INDEX index_mark_next ON index_mark (workspace, id);

-- What is not in the index as it is now.
INSERT INTO index_mark (workspace, source, ref)
SELECT discovery.workspace, 'discovery', CAST(discovery.id AS TEXT)
FROM discovery
WHERE (
    SELECT passage.changed_at FROM passage
    WHERE passage.workspace = discovery.workspace AND passage.root = '' AND passage.source = 'discovery'
      AND passage.ref = CAST(discovery.id AS TEXT) AND passage.ordinal = 0
) IS DISTINCT FROM discovery.created_at;

INSERT INTO index_mark (workspace, source, ref)
SELECT decision.workspace, 'decision', CAST(decision.id AS TEXT)
FROM decision
WHERE decision.kind = 'manual'
  AND (
      SELECT passage.changed_at FROM passage
      WHERE passage.workspace = decision.workspace AND passage.root = '' AND passage.source = 'decision'
        AND passage.ref = CAST(decision.id AS TEXT) AND passage.ordinal = 0
  ) IS DISTINCT FROM decision.created_at;

INSERT INTO index_mark (workspace, source, ref)
SELECT task.workspace, 'task', CAST(task.number AS TEXT)
FROM task
WHERE task.kind <> 'list'
  AND (
      SELECT passage.changed_at FROM passage
      WHERE passage.workspace = task.workspace AND passage.root = '' AND passage.source = 'task'
        AND passage.ref = CAST(task.number AS TEXT) AND passage.ordinal = 0
  ) IS DISTINCT FROM CASE WHEN task.deleted_at IS NULL THEN task.updated_at END;

INSERT INTO index_mark (workspace, source, ref)
SELECT comment.workspace, 'comment', CAST(comment.id AS TEXT)
FROM comment
WHERE EXISTS (
      SELECT 1 FROM task
      WHERE task.workspace = comment.workspace AND task.number = comment.task AND task.kind <> 'list'
  )
  AND (
      SELECT passage.changed_at FROM passage
      WHERE passage.workspace = comment.workspace AND passage.root = '' AND passage.source = 'comment'
        AND passage.ref = CAST(comment.id AS TEXT) AND passage.ordinal = 0
  ) IS DISTINCT FROM comment.created_at;

INSERT INTO index_mark (workspace, source, ref)
SELECT run_note.workspace, 'session', 'NOT-' || CAST(run_note.number AS TEXT)
FROM run_note
WHERE (
    SELECT passage.changed_at FROM passage
    WHERE passage.workspace = run_note.workspace AND passage.root = '' AND passage.source = 'session'
      AND passage.ref = 'NOT-' || CAST(run_note.number AS TEXT) AND passage.ordinal = 0
) IS DISTINCT FROM run_note.created_at;

INSERT INTO index_mark (workspace, source, ref)
SELECT run_iteration.workspace, 'session', run_iteration.run || '/' || CAST(run_iteration.number AS TEXT)
FROM run_iteration
WHERE run_iteration.summary IS NOT NULL
  AND (
      SELECT passage.changed_at FROM passage
      WHERE passage.workspace = run_iteration.workspace AND passage.root = '' AND passage.source = 'session'
        AND passage.ref = run_iteration.run || '/' || CAST(run_iteration.number AS TEXT) AND passage.ordinal = 0
  ) IS DISTINCT FROM run_iteration.summarised_at;

INSERT INTO index_mark (workspace, source, ref)
SELECT mail.workspace, 'mail', CAST(mail.id AS TEXT)
FROM mail
WHERE (
    SELECT passage.changed_at FROM passage
    WHERE passage.workspace = mail.workspace AND passage.root = '' AND passage.source = 'mail'
      AND passage.ref = CAST(mail.id AS TEXT) AND passage.ordinal = 0
) IS DISTINCT FROM mail.created_at;

-- These served only to find what had changed since a time.
DROP INDEX discovery_written;
DROP INDEX decision_manual;
DROP INDEX task_written;
DROP INDEX run_note_written;
DROP INDEX run_iteration_summarised;
DROP INDEX mail_written;
DROP INDEX passage_written;

ALTER TABLE passage RENAME TO chunk;
ALTER TABLE passage_words RENAME TO chunk_words;
ALTER TABLE vector RENAME TO embedding;

DROP INDEX passage_place;
DROP INDEX passage_digest;
DROP INDEX passage_named;
DROP INDEX vector_of;
DROP INDEX vector_made;
CREATE UNIQUE INDEX chunk_place ON chunk (workspace, root, source, ref, ordinal);
CREATE INDEX chunk_digest ON chunk (workspace, digest);
CREATE INDEX chunk_name ON chunk (workspace, root, name);
CREATE UNIQUE INDEX embedding_text ON embedding (workspace, model, digest);
CREATE INDEX embedding_order ON embedding (workspace, model, id);
