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
class DiscoveryRecorded:
    """Somebody wrote down what was learned about the project."""

    name: ClassVar[str] = "discovery.recorded"
    discovery: int
    by: str

    def data(self) -> dict[str, Any]:
        return {"discoveryId": f"discovery-{self.discovery}", "by": self.by}

    def topics(self) -> tuple[str, ...]:
        return ("discovery",)


@dataclass(frozen=True, slots=True)
class Told:
    """An event as the outbox keeps it."""

    id: int
    name: str
    data: dict[str, Any]
    reference: int | None
    created_at: int
    tries: int
