"""python -m shopfloor"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: a project's own queue.py is for agents to read, not for us to run

from shopfloor.cli import main

main()
