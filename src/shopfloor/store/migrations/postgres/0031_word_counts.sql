-- 0031_word_counts.sql: how often the words of a file occur, to compare their meaning with a query.

-- Files are indexed again because of their stamps.
ALTER TABLE chunk ADD COLUMN word_counts BYTEA;
