"""Things outside: the clock, tokens, files, logs and metrics."""
