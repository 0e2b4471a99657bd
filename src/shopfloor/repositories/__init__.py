"""The rows: SQL lives here, and only here."""
