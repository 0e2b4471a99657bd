"""The todo toolset: a user's own list, over MCP and for the chat assistant."""

from shopfloor.toolsets.todo import tasks
from shopfloor.toolsets.todo.contract import toolset

__all__ = ["tasks", "toolset"]
