"""The states of a driven agent, and the moves between them."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a run while it is driven."""

    START = "start"
    DECIDE = "decide"
    LAUNCH = "launch"
    INITIALIZE = "initialize"
    PREPARE = "prepare"
    OPEN = "open"
    TURN = "turn"
    CLOSE = "close"
    VERIFY = "verify"
    WAIT = "wait"
    RECOVER = "recover"
    FINISH = "finish"
    END = "end"


MOVES: dict[State, tuple[State, ...]] = {
    State.START: (State.DECIDE,),
    State.DECIDE: (State.VERIFY, State.WAIT, State.LAUNCH, State.PREPARE, State.FINISH),
    State.LAUNCH: (State.INITIALIZE, State.RECOVER),
    State.INITIALIZE: (State.PREPARE, State.RECOVER),
    State.PREPARE: (State.OPEN,),
    State.OPEN: (State.TURN, State.RECOVER),
    State.TURN: (State.CLOSE, State.RECOVER),
    State.CLOSE: (State.DECIDE,),
    State.VERIFY: (State.DECIDE, State.WAIT, State.FINISH),
    State.WAIT: (State.DECIDE,),
    State.RECOVER: (State.CLOSE, State.DECIDE),
    State.FINISH: (State.END,),
}

INTERRUPTIBLE = {
    State.START: State.DECIDE,
    State.INITIALIZE: State.RECOVER,
    State.OPEN: State.RECOVER,
    State.VERIFY: State.DECIDE,
}
"""States that may take long, and the state that follows if the run is stopped meanwhile."""
