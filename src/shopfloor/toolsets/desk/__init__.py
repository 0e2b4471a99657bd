"""The desk toolset: where the people in charge see what happens, and deal with it."""

from shopfloor.toolsets.desk import floor, inbox, log, metrics, outbox, people, runs, tasks
from shopfloor.toolsets.desk.manners import toolset

__all__ = ["floor", "inbox", "log", "metrics", "outbox", "people", "runs", "tasks", "toolset"]
