"""The factory toolset: how a team of agents works together."""

from shopfloor.toolsets.factory import agents, decisions, epics, mail, supervision, tasks
from shopfloor.toolsets.factory.manners import toolset

__all__ = ["agents", "decisions", "epics", "mail", "supervision", "tasks", "toolset"]
