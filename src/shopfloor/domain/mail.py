"""Mail: from whom, to whom, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shopfloor.domain.actors import Kind, Principal
from shopfloor.errors import NotFound, PermissionDenied

SUBJECT_LIMIT = 200
BODY_LIMIT = 64 * 1024
EXCERPT = 1000
"""Characters of a body that a list shows."""

RECIPIENTS_LIMIT = 100
OPTIONS_LIMIT = 20
EVERYONE = "everyone"
ROLE = "role:"
RUN = "run:"
"""An address that begins so is a run's."""

Importance = Literal["low", "normal", "high"]

_REPLY = "Re: "


class MailNotFound(NotFound):
    """Mail {mail} does not exist"""


class NotYourMail(PermissionDenied):
    """Mail {mail} belongs to another agent"""


@dataclass(frozen=True, slots=True)
class Party:
    """Whoever writes or gets mail: an agent, the agent of a run, the person in charge, or the floor itself."""

    key: str

    @property
    def agent(self) -> str | None:
        """The agent's name, if it is one."""
        return self.key.removeprefix("agent:") if self.key.startswith("agent:") else None

    @property
    def address(self) -> str | None:
        """What toAgentId calls an agent or a run; the person and the floor are addressed otherwise."""
        return self.key if self.key.startswith(RUN) else self.agent

    @property
    def name(self) -> str:
        """The name that answers show."""
        return self.address or _NAMES[self.key]


HUMAN = Party("human")
FLOOR = Party("floor")
HUMAN_TYPE, FLOOR_TYPE, RUN_TYPE = "HUMAN", "SYSTEM", "RUN"
_NAMES = {HUMAN.key: "human", FLOOR.key: "shopfloor"}


@dataclass(frozen=True, slots=True)
class Mail:
    """What was written."""

    id: int
    sender: Party
    sender_type: str
    reply_to: Party | None
    subject: str
    body: str
    thread: int
    in_reply_to: int | None
    importance: str
    ack_by: int | None
    created_at: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of it at one recipient."""

    mail: Mail
    recipient: Party
    delivered_at: int | None
    read_at: int | None
    acted_at: int | None


@dataclass(frozen=True, slots=True)
class Question:
    """A mail that asks a person something."""

    mail: int
    asker: Party
    options: tuple[str, ...]
    deadline: int
    answer: str | None
    answered_by: str | None
    answered_at: int | None
    reply: int | None

    def state(self, now: int) -> str:
        """ANSWERED, OPEN, or EXPIRED when the deadline has passed without an answer."""
        if self.answer is not None:
            return "ANSWERED"
        return "OPEN" if now < self.deadline else "EXPIRED"


def agent_party(name: str) -> Party:
    """The agent of that name as sender or recipient."""
    return Party(f"agent:{name}")


def run_party(name: str) -> Party:
    """The agent of the run of that name as sender or recipient."""
    return Party(f"{RUN}{name}")


def party_of(principal: Principal) -> Party:
    """As whom a principal writes and gets mail."""
    match principal.kind:
        case Kind.AGENT:
            return agent_party(principal.name)
        case Kind.RUN:
            return run_party(principal.name)
    return HUMAN


def reader_of(principal: Principal) -> str:
    """Whose mail a principal finds: an agent and a run their own, the operator the person's; users find none."""
    return HUMAN.key if principal.kind is Kind.OPERATOR else principal.key


def type_of(principal: Principal) -> str:
    """What kind of sender a principal is."""
    match principal.kind:
        case Kind.AGENT:
            return principal.role
        case Kind.RUN:
            return RUN_TYPE
    return HUMAN_TYPE


def reply_subject(subject: str) -> str:
    """The subject of a reply, with one "Re: " however long the thread."""
    return subject if subject[:3].lower() == "re:" else _REPLY + subject
