"""Events of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shopfloor.domain.runs import NOTE_PREFIX, format_task_id, run_topic


@dataclass(frozen=True, slots=True)
class _RunEvent:
    """Something that happened to a run."""

    name: ClassVar[str]
    run: str

    def data(self) -> dict[str, Any]:
        return {"run": self.run}

    def topics(self) -> tuple[str, ...]:
        return (run_topic(self.run), "run")


@dataclass(frozen=True, slots=True)
class RunStarted(_RunEvent):
    """A process began to drive a run, for the first time or again."""

    name: ClassVar[str] = "run.started"


@dataclass(frozen=True, slots=True)
class RunEnded(_RunEvent):
    """A run ended."""

    name: ClassVar[str] = "run.ended"
    state: str

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "state": self.state}


@dataclass(frozen=True, slots=True)
class RunSteered(_RunEvent):
    """A person sent a message to a run, paused, continued or stopped it; or its iteration changed."""

    name: ClassVar[str] = "run.steered"


@dataclass(frozen=True, slots=True)
class RunAsked(_RunEvent):
    """A run asked a person something."""

    name: ClassVar[str] = "run.asked"
    request: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "request": self.request}


@dataclass(frozen=True, slots=True)
class RunAnswered(_RunEvent):
    """A person answered a question of a run, or the question was withdrawn."""

    name: ClassVar[str] = "run.answered"
    request: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "request": self.request}


@dataclass(frozen=True, slots=True)
class CompletionRequested(_RunEvent):
    """The agent declared the work complete."""

    name: ClassVar[str] = "run.completion_wished"


@dataclass(frozen=True, slots=True)
class CompletionJudged(_RunEvent):
    """The runner checked the work and recorded a verdict."""

    name: ClassVar[str] = "run.completion_judged"


@dataclass(frozen=True, slots=True)
class RunTaskChanged(_RunEvent):
    """A task of a run was added or changed."""

    name: ClassVar[str] = "run.task_changed"
    task: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "task": format_task_id(self.task)}


@dataclass(frozen=True, slots=True)
class NoteAdded(_RunEvent):
    """A run added a note."""

    name: ClassVar[str] = "run.note_added"
    note: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "note": f"{NOTE_PREFIX}{self.note}"}


@dataclass(frozen=True, slots=True)
class IterationSummarised(_RunEvent):
    """An iteration of a run got its summary."""

    name: ClassVar[str] = "run.iteration_summarised"
    iteration: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "iteration": self.iteration}
