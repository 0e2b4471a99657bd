"""Events of crews."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shopfloor.domain.crews import crew_topic


@dataclass(frozen=True, slots=True)
class _CrewEvent:
    """Something that happened to a crew."""

    name: ClassVar[str]
    crew: str

    def data(self) -> dict[str, Any]:
        return {"crew": self.crew}

    # "task" too: the driver of a crew waits for its tasks and for its crew with one call.
    def topics(self) -> tuple[str, ...]:
        return (crew_topic(self.crew), "crew", "task")


@dataclass(frozen=True, slots=True)
class CrewStarted(_CrewEvent):
    """A process began to drive a crew, for the first time or again."""

    name: ClassVar[str] = "crew.started"


@dataclass(frozen=True, slots=True)
class CrewChanged(_CrewEvent):
    """A crew was paused, continued, stopped or scaled, its plan was approved, or its merge queue moved."""

    name: ClassVar[str] = "crew.changed"


@dataclass(frozen=True, slots=True)
class CrewEnded(_CrewEvent):
    """A crew ended."""

    name: ClassVar[str] = "crew.ended"
    state: str

    def data(self) -> dict[str, Any]:
        return {"crew": self.crew, "state": self.state}


@dataclass(frozen=True, slots=True)
class TaskMerged(_CrewEvent):
    """The verified work of a task was merged into the branch of a crew."""

    name: ClassVar[str] = "crew.task_merged"
    task: int
    commit: str

    def data(self) -> dict[str, Any]:
        return {"crew": self.crew, "task": f"task-{self.task}", "commit": self.commit}
