"""Principals: agents, users, the operator and runs; and their credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from unicodedata import normalize

from shopfloor.errors import InvalidInput

# The built-in agent and user of a server without credentials.
LOCAL = "local"

SUPERVISOR, ORCHESTRATOR, WORKER = "SUPERVISOR", "ORCHESTRATOR", "WORKER"
AGENT_TYPES = (SUPERVISOR, ORCHESTRATOR, WORKER)

# The desk roles as stored: a viewer sees everything, an editor also answers and moves tasks.
VIEWER, EDITOR = "READER", "HELPER"

# The desk roles that people read and type, with their stored values.
DESK_ROLES: dict[str, str | None] = {"none": None, "viewer": VIEWER, "editor": EDITOR}

REVIEWER = "REVIEWER"
"""The type of an agent that reviews for a crew. It decides on the task of its review, and changes nothing else."""

CREW_DRIVER = "CREW"
"""The role of the principal that drives a crew."""

# Names that no agent may have: responses use them for others.
RESERVED_NAMES = frozenset({"human", "shopfloor", "everyone", "floor", "operator"})

_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Kind(StrEnum):
    """The kind of a principal or of a credential."""

    AGENT = "agent"
    USER = "user"
    OPERATOR = "operator"
    RUN = "run"
    # The process that drives a run or, with the role CREW_DRIVER, a crew. It has no token.
    RUNNER = "runner"
    # An agent that reviews the work of a run or of another agent. Its name is the key of the reviewed: run:NAME.
    REVIEWER = "reviewer"

    # This process, acting before or without a caller. It has no token, and may call no tool.
    SERVER = "server"

    # Never a principal: the session of a signed-in user of the pages.
    PAGE = "page"

    # Never a principal: a single-use link to such a session.
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller, proven by a credential and never by an argument."""

    kind: Kind
    name: str
    role: str = ""
    key: str = field(init=False, repr=False, compare=False)
    """The principal in the log and as the owner of rows."""

    def __post_init__(self) -> None:
        # Computed once: a call uses it eight times.
        object.__setattr__(self, "key", f"{self.kind}:{self.name}")

    @property
    def title(self) -> str:
        """The name of this principal in error messages."""
        if self.kind is Kind.USER and self.role:
            return format_desk_role(self.role)
        return self.role or self.kind.value.upper()


def format_desk_role(stored: str | None) -> str:
    """Return the desk role as people read it."""
    return next(name for name, value in DESK_ROLES.items() if value == stored)


OPERATOR = Principal(Kind.OPERATOR, "operator")
LOCAL_OPERATOR = Principal(Kind.OPERATOR, LOCAL)
"""A caller on the machine of a server that has issued no credential yet."""
SERVER = Principal(Kind.SERVER, "server")


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent."""

    name: str
    type: str
    supervisor: str | None
    current_epic: int | None
    current_task: int | None
    tmux_session_name: str | None
    last_active_at: int
    created_at: int
    updated_at: int
    retired_at: int | None
    waiting_until: int | None
    failed_at: int | None
    retry_at: int | None
    failures: int

    def state(self, now: int) -> str:
        """Return FAILED, WAITING, BUSY or IDLE: from its crashes, its open wait and its task."""
        if self.has_failed(now):
            return "FAILED"
        if self.waiting_until is not None and now < self.waiting_until:
            return "WAITING"
        return "IDLE" if self.current_task is None else "BUSY"

    def has_failed(self, now: int) -> bool:
        """Return whether it has crashed too often and may not try again yet."""
        return self.failed_at is not None and (self.retry_at is None or now < self.retry_at)

    def seen_at(self, now: int) -> int:
        """Return when it was last active; an agent that waits is active."""
        return max(self.last_active_at, min(self.waiting_until or 0, now))

    @property
    def principal(self) -> Principal:
        return Principal(Kind.AGENT, self.name, self.type)


@dataclass(frozen=True, slots=True)
class User:
    """A user."""

    name: str
    created_at: int
    removed_at: int | None
    desk: str | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A credential as stored: never the secret itself."""

    id: str
    kind: Kind
    owner: str
    digest: bytes | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def is_valid(self, now: int) -> bool:
        """Return whether the token is still accepted."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def agent_key(name: str) -> str:
    """Return the principal key of an agent."""
    return f"{Kind.AGENT.value}:{name}"


def check_agent_name(name: str) -> str:
    """Return the name, or raise InvalidInput if an agent may not have it."""
    if not _AGENT_NAME.fullmatch(name):
        raise InvalidInput(
            "An agent's name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit",
            field="name",
        )
    if name.lower() in RESERVED_NAMES:
        raise InvalidInput(f"'{name}' is a reserved name", field="name")
    return name


def check_user_name(name: str) -> str:
    """Return the name, or raise InvalidInput if a user may not have it."""
    # A name with a trailing zero-width space, or with é as two characters, would be another user who looks the same.
    if not 1 <= len(name) <= 255 or name != name.strip() or not name.isprintable() or name != normalize("NFC", name):
        raise InvalidInput(
            "A user's name has 1 to 255 printable characters in Unicode NFC, without white space around them",
            field="name",
        )
    return name
