"""The factory toolset: how a team of agents works together."""

from shopfloor.toolsets.factory import agents, decisions, epics, mail, supervisor, tasks
from shopfloor.toolsets.factory.contract import toolset, with_roles
from shopfloor.toolsets.factory.mail import describe_unread_mail

__all__ = [
    "agents",
    "decisions",
    "describe_unread_mail",
    "epics",
    "mail",
    "supervisor",
    "tasks",
    "toolset",
    "with_roles",
]
