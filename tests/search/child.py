"""Index a project, then wait to be killed: `python -m tests.search.child ROOT`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.toolsets.context.support import open_floor

if __name__ == "__main__":
    shopfloor = open_floor(Path(sys.argv[1]))
    print("ready", flush=True)
    shopfloor.engine.search.update_all()
    print("done", flush=True)
    sys.stdin.read()
