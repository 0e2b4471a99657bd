"""The personal toolset: what people do with their own list and conversations, on the page and the command line."""

from shopfloor.toolsets.personal import conversations, tasks
from shopfloor.toolsets.personal.contract import toolset

__all__ = ["conversations", "tasks", "toolset"]
