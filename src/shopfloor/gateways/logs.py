"""Structured logs: one JSON object a line, or something pleasant to read on a terminal."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections import deque
from datetime import UTC, datetime
from typing import Any, TextIO

from pydantic_core import PydanticSerializationError, to_json

from shopfloor.domain.times import second

_PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def set_up(style: str, level: str, stream: TextIO | None = None) -> None:
    """Log to the standard error; `style` is json, pretty, or auto (pretty on a terminal)."""
    stream = stream or sys.stderr
    pretty = style == "pretty" or (style == "auto" and stream.isatty())
    handler = _Lines(stream)
    handler.setFormatter(_Pretty() if pretty else _JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("shopfloor").setLevel(level.upper())
    # No line says who logged it, so nothing needs to find that out; two lines a call are worth it.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


class _Lines(logging.StreamHandler[TextIO]):
    """Writes lines as they come, and lets nobody wait for it: who finds somebody writing leaves the line to them, and
    on an event loop those of one turn go together. Each writing lets go of the interpreter, and under load somebody
    else takes it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._waiting: deque[str] = deque()
        self._writing = threading.Lock()

    def createLock(self) -> None:  # noqa: N802 - the standard library's name
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as every handler of the standard library
            self.handleError(record)
            return
        self._waiting.append(line)
        loop = asyncio._get_running_loop()
        if loop is None or record.levelno >= logging.WARNING:
            self.flush()
        elif len(self._waiting) == 1:
            loop.call_soon(self.flush)

    def flush(self) -> None:
        while self._waiting and self._writing.acquire(blocking=False):
            try:
                lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
                self.stream.write("".join(f"{line}{self.terminator}" for line in lines))
                self.stream.flush()
            except (OSError, ValueError):  # nobody reads it any more
                pass
            finally:
                self._writing.release()


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": f"{second(int(record.created))}.{int(record.msecs):03d}+00:00",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # In ASCII, as some readers take more than \n for the end of a line, and terminals obey some characters.
        try:
            return to_json(line, fallback=str, ensure_ascii=True).decode()
        except PydanticSerializationError:  # half a character
            return json.dumps(line, default=str)


class _Pretty(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = f"{datetime.fromtimestamp(record.created, UTC).astimezone():%H:%M:%S}"
        facts = " ".join(f"{key}={_visible(value)}" for key, value in _facts(record).items() if value is not None)
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        text = f"{time} {mark}{_visible(record.getMessage())} {facts}".rstrip()
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _PLAIN}


def _visible(value: Any) -> str:
    """Agent-written text must not steer the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(value))
