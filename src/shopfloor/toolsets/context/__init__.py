"""The context toolset: what is in the project, and what the team knows about it."""

from shopfloor.toolsets.context import files, search
from shopfloor.toolsets.context.contract import toolset

__all__ = ["files", "search", "toolset"]
