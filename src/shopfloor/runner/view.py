"""Views of a run while it is driven: JSON lines for programs here, views for people in `live_view.py` and `crew_view.py`."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol, TextIO

from shopfloor.domain.text import format_json

_LIVE_ONLY = frozenset({"progress", "said", "plan"})


class View(Protocol):
    """A receiver of events: a name and facts."""

    def show(self, event: str, **facts: Any) -> None:
        """Show one event."""


class JsonLines:
    """One JSON object per line, for programs, without the events that only a live panel needs."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def show(self, event: str, **facts: Any) -> None:
        if event in _LIVE_ONLY:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        # A reader that has gone away must not end the run.
        with contextlib.suppress(BrokenPipeError, ValueError):
            print(format_json({"at": at, "event": event, **facts}), file=self._stream, flush=True)


def format_until(until: str) -> str:
    """Return a future time in the terminal's time zone, with its date unless that is today."""
    moment, now = datetime.fromisoformat(until).astimezone(), datetime.now().astimezone()
    return f"{moment:%H:%M:%S}" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M:%S}"


@contextmanager
def read_keys(on_key: Callable[[str], None], loop: Any) -> Iterator[None]:
    """Pass single key presses from the terminal to `on_key`, without waiting for Enter, inside the `with` block."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, lambda: on_key(os.read(descriptor, 1).decode(errors="replace")))
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
