"""The desk toolset: where the person in charge sees what waits, and deals with it."""

from shopfloor.toolsets.desk import inbox, tasks
from shopfloor.toolsets.desk.manners import toolset

__all__ = ["inbox", "tasks", "toolset"]
