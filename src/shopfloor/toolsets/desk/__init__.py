"""The desk toolset: where the people in charge see what happens, and deal with it."""

from shopfloor.toolsets.desk import floor, log, metrics, outbox, people, runs
from shopfloor.toolsets.desk.manners import toolset

__all__ = ["floor", "log", "metrics", "outbox", "people", "runs", "toolset"]
