"""The loop toolset: what an agent that is driven from iteration to iteration keeps for the next one."""

from shopfloor.toolsets.loop import notes, sessions, tasks
from shopfloor.toolsets.loop.contract import toolset

__all__ = ["notes", "sessions", "tasks", "toolset"]
