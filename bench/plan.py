"""The extent of a run: databases, clients, rounds and seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    folder: Path
    databases: dict[str, Callable[[], str]]
    """By engine, a function that creates an empty database and returns its URL."""
    rounds: int
    seconds: float
    clients: tuple[int, ...]
    starts: int
    report: Callable[[str], None]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def data(self, name: str) -> str:
        return str(self.folder / name)
