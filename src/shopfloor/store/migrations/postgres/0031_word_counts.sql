-- 0031_word_counts.sql: how often the words of a file or document occur, to compare their meaning with a query.

ALTER TABLE chunk ADD COLUMN word_counts BYTEA;

-- Files are indexed again because of their stamps, documents because of a mark.
INSERT INTO index_mark (workspace, source, ref)
SELECT workspace, source, ref FROM chunk WHERE source <> 'code' ORDER BY id;
