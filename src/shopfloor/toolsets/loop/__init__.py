"""The loop toolset: what a driven agent keeps from one iteration for the next."""

from shopfloor.toolsets.loop import notes, sessions, tasks
from shopfloor.toolsets.loop.contract import toolset

__all__ = ["notes", "sessions", "tasks", "toolset"]
