"""The context toolset: what is in the project, and what the team knows of it."""

from shopfloor.toolsets.context import files, knowledge
from shopfloor.toolsets.context.manners import toolset

__all__ = ["files", "knowledge", "toolset"]
