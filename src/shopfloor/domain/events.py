"""What happened, in the past tense: frozen facts that name things and carry nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


class Event(Protocol):
    """A fact that others may want to hear about."""

    name: ClassVar[str]

    def data(self) -> dict[str, Any]:
        """The fact as the outside reads it."""

    def topics(self) -> tuple[str, ...]:
        """What those who wait for such facts listen to."""


@dataclass(frozen=True, slots=True)
class DecisionLogged:
    """An agent wrote a decision of its own into the log."""

    name: ClassVar[str] = "decision.logged"
    log: int
    by: str

    def data(self) -> dict[str, Any]:
        return {"logId": f"log-{self.log}", "by": self.by}

    def topics(self) -> tuple[str, ...]:
        return ("log",)


@dataclass(frozen=True, slots=True)
class CallEscalated:
    """A call failed for a reason that is not the caller's, and somebody in charge must know."""

    name: ClassVar[str] = "call.escalated"
    escalation: int
    subject: str
    tool: str

    def data(self) -> dict[str, Any]:
        return {"escalationId": self.escalation, "subject": self.subject, "tool": self.tool}

    def topics(self) -> tuple[str, ...]:
        return ("escalation",)


@dataclass(frozen=True, slots=True)
class MailSent:
    """Mail was put into an inbox."""

    name: ClassVar[str] = "mail.sent"
    mail: int
    recipient: str
    to_agent: str | None
    subject: str

    def data(self) -> dict[str, Any]:
        return {
            "mailId": f"mail-{self.mail}",
            "toAgentId": self.to_agent,
            "isForHuman": self.to_agent is None,
            "subject": self.subject,
        }

    def topics(self) -> tuple[str, ...]:
        return (f"mail:{self.recipient}",)


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    """A person answered what an agent had asked."""

    name: ClassVar[str] = "question.answered"
    question: int
    by: str

    def data(self) -> dict[str, Any]:
        return {"mailId": f"mail-{self.question}", "by": self.by}

    def topics(self) -> tuple[str, ...]:
        return (f"question:{self.question}",)


@dataclass(frozen=True, slots=True)
class TaskChanged:
    """A task of the team was made, moved, given to somebody or edited."""

    name: ClassVar[str] = "task.changed"
    task: int
    state: str
    by: str

    def data(self) -> dict[str, Any]:
        return {"taskId": f"task-{self.task}", "state": self.state, "by": self.by}

    def topics(self) -> tuple[str, ...]:
        return ("task",)


@dataclass(frozen=True, slots=True)
class EpicChanged:
    """An epic was made or moved."""

    name: ClassVar[str] = "epic.changed"
    epic: int
    state: str
    by: str

    def data(self) -> dict[str, Any]:
        return {"epicId": f"epic-{self.epic}", "state": self.state, "by": self.by}

    def topics(self) -> tuple[str, ...]:
        return ("epic",)


@dataclass(frozen=True, slots=True)
class AgentChanged:
    """An agent came, went, fell silent, failed or recovered."""

    name: ClassVar[str] = "agent.changed"
    agent: str
    change: str

    def data(self) -> dict[str, Any]:
        return {"agentId": self.agent, "change": self.change}

    def topics(self) -> tuple[str, ...]:
        return ("agent",)


@dataclass(frozen=True, slots=True)
class DiscoveryRecorded:
    """Somebody wrote down what was learned about the project."""

    name: ClassVar[str] = "discovery.recorded"
    discovery: int
    by: str

    def data(self) -> dict[str, Any]:
        return {"discoveryId": f"discovery-{self.discovery}", "by": self.by}

    def topics(self) -> tuple[str, ...]:
        return ("discovery",)


KINDS: tuple[type[Event], ...] = (
    DecisionLogged,
    CallEscalated,
    MailSent,
    QuestionAnswered,
    TaskChanged,
    EpicChanged,
    AgentChanged,
    DiscoveryRecorded,
)


@dataclass(frozen=True, slots=True)
class Told:
    """An event as the outbox keeps it."""

    id: int
    name: str
    data: dict[str, Any]
    reference: int | None
    created_at: int
    tries: int
