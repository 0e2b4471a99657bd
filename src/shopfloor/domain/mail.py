"""Mail: sender, recipients, and its state for each recipient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shopfloor.domain.principals import Kind, Principal
from shopfloor.errors import NotFound, PermissionDenied

MAX_SUBJECT_CHARACTERS = 200
MAX_BODY_CHARACTERS = 64 * 1024
# Characters of a body that a list shows.
EXCERPT_CHARACTERS = 1000

MAX_RECIPIENTS = 100
MAX_OPTIONS = 20
EVERYONE = "everyone"
ROLE_PREFIX = "role:"
# Prefix of a run's address.
RUN_PREFIX = "run:"

# Prefix of `answered_by` when the answer came through the MCP client of the agent that asked.
CLIENT_PREFIX = "client:"

Importance = Literal["low", "normal", "high"]
AnsweredIn = Literal["client", "inbox"]

_REPLY = "Re: "


class MailNotFound(NotFound):
    """Mail {mail} does not exist"""


class NotYourMail(PermissionDenied):
    """Mail {mail} belongs to another agent"""


@dataclass(frozen=True, slots=True)
class Participant:
    """A sender or recipient of mail: an agent, the agent of a run, the operator, or the server itself."""

    key: str

    @property
    def agent(self) -> str | None:
        """The agent's name, or None."""
        return self.key.removeprefix("agent:") if self.key.startswith("agent:") else None

    @property
    def address(self) -> str | None:
        """The agent or run as toAgentId names it; None for the operator and the server."""
        return self.key if self.key.startswith(RUN_PREFIX) else self.agent

    @property
    def name(self) -> str:
        """The name that responses show."""
        return self.address or _NAMES[self.key]


HUMAN = Participant("human")
# "floor" is the stored key of the server. Responses call it shopfloor.
SYSTEM = Participant("floor")
HUMAN_TYPE, SYSTEM_TYPE, RUN_TYPE = "HUMAN", "SYSTEM", "RUN"
_NAMES = {HUMAN.key: "human", SYSTEM.key: "shopfloor"}


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail."""

    id: int
    sender: Participant
    sender_type: str
    reply_to: Participant | None
    subject: str
    body: str
    thread: int
    in_reply_to: int | None
    importance: str
    ack_by: int | None
    created_at: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The state of a mail for one recipient."""

    mail: Mail
    recipient: Participant
    delivered_at: int | None
    read_at: int | None
    acted_at: int | None


@dataclass(frozen=True, slots=True)
class Question:
    """A mail that asks the operator a question."""

    mail: int
    asker: Participant
    options: tuple[str, ...]
    deadline: int
    answer: str | None
    answered_by: str | None
    answered_at: int | None
    reply: int | None

    @property
    def answered_in(self) -> AnsweredIn | None:
        """Where the answer was given, or None. A client's person and program cannot be distinguished."""
        if self.answered_by is None:
            return None
        return "client" if self.answered_by.startswith(CLIENT_PREFIX) else "inbox"

    def state(self, now: int) -> str:
        """Return ANSWERED, OPEN, or EXPIRED when the deadline has passed without an answer."""
        if self.answer is not None:
            return "ANSWERED"
        return "OPEN" if now < self.deadline else "EXPIRED"


def agent_participant(name: str) -> Participant:
    """Return the agent of that name as sender or recipient."""
    return Participant(f"agent:{name}")


def run_participant(name: str) -> Participant:
    """Return the run of that name as sender or recipient."""
    return Participant(f"{RUN_PREFIX}{name}")


def to_participant(principal: Principal) -> Participant:
    """Return the participant that a principal sends and receives mail as."""
    return Participant(principal.key) if principal.kind in (Kind.AGENT, Kind.RUN) else HUMAN


def mail_reader_key(principal: Principal) -> str:
    """Return the key of the participant whose mail a principal may find in a search; users find none."""
    return HUMAN.key if principal.kind is Kind.OPERATOR else principal.key


def sender_type(principal: Principal) -> str:
    """Return the sender type of a principal."""
    match principal.kind:
        case Kind.AGENT:
            return principal.role
        case Kind.RUN:
            return RUN_TYPE
    return HUMAN_TYPE


def format_reply_subject(subject: str) -> str:
    """Return the subject of a reply, with a single "Re: "."""
    # "Re:view of the plan" only begins like a reply.
    is_reply = subject[:3].lower() == "re:" and not subject[3:4].strip()
    return subject if is_reply else _REPLY + subject
