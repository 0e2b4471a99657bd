"""`shopfloor` with a few more tools in the factory toolset, for what the floor's own first tools never do.

`python -m tests.doors.fixtures serve …` is the real program in everything else.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from shopfloor.cli import main
from shopfloor.domain.times import SECOND
from shopfloor.errors import Unavailable, WrongState
from shopfloor.repositories.work import Outside, Work
from shopfloor.toolkit import Json, Waiting
from shopfloor.toolsets.factory.manners import toolset


@toolset.tool("mcp__fixture__wait")
def wait(work: Work, topic: str, seconds: int, waited: Waiting | None = None) -> Any:
    """Wait for a topic to stir."""
    if waited is None:
        return Waiting(topic, work.now + seconds * SECOND, state="asked")
    return {"stirred": work.now < waited.until}


@toolset.tool("mcp__fixture__hold", outside=True)
def hold(outside: Outside, gate: str) -> Json:
    """Report progress, then go on when the gate, a file, is there."""
    outside.progress(1, 2, "holding")
    while not Path(gate).exists():
        time.sleep(0.005)
    outside.progress(2, 2, "done")
    return {"gate": gate}


@toolset.tool("mcp__fixture__break")
def break_down(work: Work, text: str) -> Json:
    """Fail in a way that nobody expected."""
    raise RuntimeError(f"broken: {text}")


@toolset.tool("mcp__fixture__hiccup")
def hiccup(work: Work) -> Json:
    """Fail in a way that may pass, every time."""
    raise Unavailable


@toolset.tool("mcp__fixture__refuse")
def refuse(work: Work) -> Json:
    """Refuse because of the state that the agent is in."""
    raise WrongState("The agent holds no task")


@toolset.tool("mcp__fixture__echo", read_only=True)
def echo(work: Work, text: str, number: int | None = None) -> Json:
    """Say it again."""
    return {"text": text, "number": number}


if __name__ == "__main__":
    main()
