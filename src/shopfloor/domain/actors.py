"""Who acts on the floor: agents, users, the operator, runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from shopfloor.errors import InvalidInput

LOCAL = "local"
"""The built-in agent and user of a floor on one's own machine."""

SUPERVISOR, ORCHESTRATOR, WORKER = "SUPERVISOR", "ORCHESTRATOR", "WORKER"
AGENT_TYPES = (SUPERVISOR, ORCHESTRATOR, WORKER)

_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


class Kind(StrEnum):
    """What sort of principal somebody is."""

    AGENT = "agent"
    USER = "user"
    OPERATOR = "operator"
    RUN = "run"
    PAGE = "page"
    """Never a principal: the session of a page, which stands for whoever signed in."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may call: proven by a credential, never by an argument."""

    kind: Kind
    name: str
    role: str = ""

    @property
    def key(self) -> str:
        """The one spelling used in the log and as the owner of rows."""
        return f"{self.kind}:{self.name}"

    @property
    def title(self) -> str:
        """What a refusal calls this principal."""
        return self.role or self.kind.value.upper()


OPERATOR = Principal(Kind.OPERATOR, "operator")


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent as the floor knows it."""

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

    @property
    def state(self) -> str:
        """IDLE or BUSY, from what the agent holds."""
        return "IDLE" if self.current_task is None else "BUSY"

    @property
    def principal(self) -> Principal:
        return Principal(Kind.AGENT, self.name, self.type)


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the floor."""

    name: str
    created_at: int
    removed_at: int | None


@dataclass(frozen=True, slots=True)
class Token:
    """A credential as the floor remembers it: never the secret itself."""

    id: str
    kind: Kind
    owner: str
    digest: bytes | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def valid(self, now: int) -> bool:
        """Whether the token still opens doors."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def agent_name(name: str) -> str:
    """The name, if an agent may be called that."""
    if not _AGENT_NAME.fullmatch(name):
        raise InvalidInput(
            "An agent's name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit",
            field="name",
        )
    return name


def user_name(name: str) -> str:
    """The name, if a user may be called that."""
    if not 1 <= len(name) <= 255 or name != name.strip() or _UNPRINTABLE.search(name):
        raise InvalidInput("A user's name has 1 to 255 printable characters without outer space", field="name")
    return name
