"""Events: facts in the past tense that carry only names and ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


class Event(Protocol):
    """A fact that subscribers may want to receive."""

    name: ClassVar[str]

    def data(self) -> dict[str, Any]:
        """Return the payload that subscribers get."""

    def topics(self) -> tuple[str, ...]:
        """Return the topics that are notified."""


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
class LogSealed:
    """Rows of the log were sealed. A digest kept elsewhere later proves that no earlier row was changed."""

    name: ClassVar[str] = "log.sealed"
    number: int
    digest: str
    rows: int
    last: int

    def data(self) -> dict[str, Any]:
        return {"seal": self.number, "digest": self.digest, "rows": self.rows, "lastLogId": f"log-{self.last}"}

    def topics(self) -> tuple[str, ...]:
        return ("seal",)


@dataclass(frozen=True, slots=True)
class CallEscalated:
    """A call failed through no fault of the caller, and the supervisor or operator must know."""

    name: ClassVar[str] = "call.escalated"
    escalation: int
    subject: str
    tool: str
    critical: bool = False

    def data(self) -> dict[str, Any]:
        return {
            "escalationId": self.escalation,
            "subject": self.subject,
            "tool": self.tool,
            "critical": self.critical,
        }

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
    """A person answered an agent's question."""

    name: ClassVar[str] = "question.answered"
    question: int
    by: str

    def data(self) -> dict[str, Any]:
        return {"mailId": f"mail-{self.question}", "by": self.by}

    def topics(self) -> tuple[str, ...]:
        return (f"question:{self.question}",)


@dataclass(frozen=True, slots=True)
class TaskChanged:
    """A task of the team was created, moved, assigned or edited."""

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
    """An epic was created or moved."""

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
    """An agent was created, retired, fell silent, failed or recovered."""

    name: ClassVar[str] = "agent.changed"
    agent: str
    change: str

    def data(self) -> dict[str, Any]:
        return {"agentId": self.agent, "change": self.change}

    def topics(self) -> tuple[str, ...]:
        return ("agent",)


@dataclass(frozen=True, slots=True)
class DiscoveryRecorded:
    """A discovery about the project was recorded."""

    name: ClassVar[str] = "discovery.recorded"
    discovery: int
    by: str

    def data(self) -> dict[str, Any]:
        return {"discoveryId": f"discovery-{self.discovery}", "by": self.by}

    def topics(self) -> tuple[str, ...]:
        return ("discovery",)


KINDS: tuple[type[Event], ...] = (
    DecisionLogged,
    LogSealed,
    CallEscalated,
    MailSent,
    QuestionAnswered,
    TaskChanged,
    EpicChanged,
    AgentChanged,
    DiscoveryRecorded,
)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as the outbox stores it."""

    id: int
    name: str
    data: dict[str, Any]
    reference: int | None
    created_at: int
    tries: int
