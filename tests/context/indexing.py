"""Indexes a project until it is killed: `python -m tests.context.indexing ROOT`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.context.support import open_floor

if __name__ == "__main__":
    floor = open_floor(Path(sys.argv[1]))
    print("ready", flush=True)
    floor.floor.indexer.catch_up()
    print("done", flush=True)
    sys.stdin.read()
