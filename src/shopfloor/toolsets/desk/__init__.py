"""The desk toolset: where the people in charge see what happens, and deal with it."""

from shopfloor.toolsets.desk import boards, floor, inbox, log, mailroom, memory, metrics, outbox, people, runs, tasks
from shopfloor.toolsets.desk.manners import toolset

__all__ = [
    "boards",
    "floor",
    "inbox",
    "log",
    "mailroom",
    "memory",
    "metrics",
    "outbox",
    "people",
    "runs",
    "tasks",
    "toolset",
]
