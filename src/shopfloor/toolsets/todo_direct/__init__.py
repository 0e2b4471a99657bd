"""The todo_direct toolset: a user's list for agents in this process."""

from shopfloor.toolsets.todo_direct import tasks
from shopfloor.toolsets.todo_direct.contract import toolset

__all__ = ["tasks", "toolset"]
