"""What a person or a program sees of a run while it goes on."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

KEYS = {"a": "allow", "w": "always", "d": "deny"}
_SHOWN = 8
_SMALL_TALK = frozenset({"progress", "said"})


class View(Protocol):
    """Takes what happens, as the name of an event and its facts."""

    def show(self, event: str, **facts: Any) -> None:
        """Something happened."""


class JsonLines:
    """One JSON object a line, for programs; the small talk is left out."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def show(self, event: str, **facts: Any) -> None:
        if event in _SMALL_TALK:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with contextlib.suppress(BrokenPipeError, ValueError):
            print(json.dumps({"at": at, "event": event, **facts}, ensure_ascii=False), file=self._stream, flush=True)


class LiveView:
    """A panel that is drawn anew as things happen; keys answer what the agent asks."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._began = time.monotonic()
        self._facts: dict[str, Any] = {"run": "", "iteration": "-", "task": "-", "budget": ""}
        self._calls: deque[str] = deque(maxlen=_SHOWN)
        self._questions: dict[int, str] = {}
        self._text = ""

    def show(self, event: str, **facts: Any) -> None:
        match event:
            case "tool_call":
                self._calls.append(f"{facts.get('status') or 'called'}: {facts.get('title') or facts.get('kind')}")
            case "said":
                self._text = (self._text + str(facts.get("text", "")))[-400:]
            case "permission_asked":
                self._questions[facts["number"]] = facts["question"]
            case "permission_answered":
                self._questions.pop(facts["number"], None)
            case "progress":
                self._facts |= facts
            case _:
                self._facts |= {key: facts[key] for key in ("run", "iteration") if key in facts}
                self._line(event, facts)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """For as long as the run lasts."""
        with Live(get_renderable=self.panel, console=self._console, refresh_per_second=4, transient=True):
            yield

    def pressed(self, key: str) -> tuple[int, str] | None:
        """The question that a key answers, and the answer."""
        if key.lower() not in KEYS or not self._questions:
            return None
        return next(iter(self._questions)), KEYS[key.lower()]

    def panel(self) -> Panel:
        """The run at this moment."""
        elapsed = int(time.monotonic() - self._began)
        head = Table.grid(padding=(0, 2))
        head.add_row("iteration", Text(str(self._facts["iteration"])))
        head.add_row("task", Text(_visible(str(self._facts["task"]))[:100]))
        head.add_row("elapsed", f"{elapsed // 3600}:{elapsed // 60 % 60:02}:{elapsed % 60:02}")
        head.add_row("budget", Text(str(self._facts["budget"])))
        parts: list[Any] = [head, *(Text(f"· {_visible(call)}"[:120], style="dim") for call in self._calls)]
        if self._text:
            parts.append(Text(_visible(self._text)[-240:], style="italic"))
        for number, question in self._questions.items():
            parts.append(Text(f"question {number}: {_visible(question)}", style="bold yellow"))
            parts.append(Text("  a allow once · w allow always · d deny", style="yellow"))
        return Panel(Group(*parts), title=f"run {self._facts['run']}")

    def _line(self, event: str, facts: dict[str, Any]) -> None:
        text = ", ".join(f"{key} {_visible(str(value))}" for key, value in facts.items() if value not in (None, "", []))
        self._console.print(Text(f"{event.replace('_', ' ')}: {text}"[:500]))


@contextmanager
def keys(pressed: Callable[[str], None], loop: Any) -> Iterator[None]:
    """Single keys of the terminal go to `pressed`, without waiting for the end of a line."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, lambda: pressed(os.read(descriptor, 1).decode(errors="replace")))
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _visible(text: str) -> str:
    """What agents write must not steer the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
