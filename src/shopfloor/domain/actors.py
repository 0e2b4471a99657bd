"""Who acts on the floor: agents, users, the operator, runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from unicodedata import normalize

from shopfloor.errors import InvalidInput

LOCAL = "local"
"""The built-in agent and user of a floor on one's own machine."""

SUPERVISOR, ORCHESTRATOR, WORKER = "SUPERVISOR", "ORCHESTRATOR", "WORKER"
AGENT_TYPES = (SUPERVISOR, ORCHESTRATOR, WORKER)

READER, HELPER = "READER", "HELPER"
"""What a user can be at the desk: one who looks, or one who also answers and moves."""

RESERVED = frozenset({"human", "shopfloor", "everyone", "floor", "operator"})
"""What no agent may be called: answers use these names for others."""

_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Kind(StrEnum):
    """What sort of principal somebody is."""

    AGENT = "agent"
    USER = "user"
    OPERATOR = "operator"
    RUN = "run"
    PAGE = "page"
    """Never a principal: the session of a page, which stands for whoever signed in."""

    LINK = "link"
    """Never a principal: a way to such a session, good once."""


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
    waiting_until: int | None
    failed_at: int | None
    retry_at: int | None
    failures: int

    def state(self, now: int) -> str:
        """FAILED, WAITING, BUSY or IDLE: from its crashes, its open wait, and what it holds."""
        if self.failed(now):
            return "FAILED"
        if self.waiting_until is not None and now < self.waiting_until:
            return "WAITING"
        return "IDLE" if self.current_task is None else "BUSY"

    def failed(self, now: int) -> bool:
        """Whether it has crashed too often and may not try again yet."""
        return self.failed_at is not None and (self.retry_at is None or now < self.retry_at)

    def seen_at(self, now: int) -> int:
        """When it last gave a sign of life; who waits is alive."""
        return max(self.last_active_at, min(self.waiting_until or 0, now))

    @property
    def principal(self) -> Principal:
        return Principal(Kind.AGENT, self.name, self.type)


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the floor."""

    name: str
    created_at: int
    removed_at: int | None
    desk: str | None = None


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


def agent_key(name: str) -> str:
    """An agent in the one spelling of the log."""
    return f"{Kind.AGENT.value}:{name}"


def agent_name(name: str) -> str:
    """The name, if an agent may be called that."""
    if not _AGENT_NAME.fullmatch(name):
        raise InvalidInput(
            "An agent's name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit",
            field="name",
        )
    if name.lower() in RESERVED:
        raise InvalidInput(f"'{name}' is not an agent's name: the floor uses it for somebody else", field="name")
    return name


def user_name(name: str) -> str:
    """The name, if a user may be called that: nobody looks like somebody else by a letter that is not seen."""
    if not 1 <= len(name) <= 255 or name != name.strip() or not name.isprintable() or name != normalize("NFC", name):
        raise InvalidInput(
            "A user's name has 1 to 255 printable characters without outer space, each in one piece (Unicode NFC)",
            field="name",
        )
    return name
