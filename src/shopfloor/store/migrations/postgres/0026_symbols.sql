-- 0026_symbols.sql: Chunks know what they are, and which names they define.

-- function, method, class, module, section, text, or file for the overview of a file. Empty for documents.
ALTER TABLE chunk ADD COLUMN kind TEXT NOT NULL DEFAULT '';

-- The last part of a chunk's name, and the constants, fields and settings in it. Folded, so that any spelling is found.
CREATE TABLE chunk_symbol (
    workspace BIGINT NOT NULL,
    root      TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    chunk     BIGINT NOT NULL REFERENCES chunk (id) ON DELETE CASCADE,
    PRIMARY KEY (workspace, root, name, chunk)
);
CREATE INDEX chunk_symbol_chunk ON chunk_symbol (chunk);

-- A name is searched for among the symbols.
DROP INDEX chunk_name;
