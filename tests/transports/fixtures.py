"""Run `shopfloor` with more tools in the factory toolset, which wait, report progress and fail.

`python -m tests.transports.fixtures serve …` is the real program otherwise.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from shopfloor.cli import main
from shopfloor.domain.times import SECOND
from shopfloor.errors import InvalidState, Unavailable
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json, Waiting
from shopfloor.toolsets.factory.contract import toolset
from shopfloor.usecases.external import ExternalContext


@toolset.tool("mcp__fixture__wait")
def wait(uow: UnitOfWork, topic: str, seconds: int, resumed: Waiting | None = None) -> Any:
    """Wait until a topic is notified."""
    if resumed is None:
        return Waiting(topic, uow.now + seconds * SECOND, state="asked")
    return {"notified": uow.now < resumed.until}


@toolset.tool("mcp__fixture__hold", external=True)
def hold(external: ExternalContext, gate: str) -> Json:
    """Report progress, then wait until the file `gate` exists."""
    external.progress(1, 2, "holding")
    while not Path(gate).exists():
        time.sleep(0.005)
    external.progress(2, 2, "done")
    return {"gate": gate}


@toolset.tool("mcp__fixture__break")
def break_down(uow: UnitOfWork, text: str) -> Json:
    """Raise an unexpected error."""
    raise RuntimeError(f"broken: {text}")


@toolset.tool("mcp__fixture__hiccup")
def hiccup(uow: UnitOfWork) -> Json:
    """Raise a transient error, every time."""
    raise Unavailable


@toolset.tool("mcp__fixture__refuse")
def refuse(uow: UnitOfWork) -> Json:
    """Reject the call because of the state of the agent."""
    raise InvalidState("The agent holds no task")


@toolset.tool("mcp__fixture__echo", read_only=True)
def echo(uow: UnitOfWork, text: str, number: int | None = None) -> Json:
    """Return the arguments."""
    return {"text": text, "number": number}


if __name__ == "__main__":
    main()
