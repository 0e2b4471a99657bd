"""Background threads: dispatcher, indexer, housekeeping and others."""
