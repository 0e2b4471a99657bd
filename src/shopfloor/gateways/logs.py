"""Structured logs: one JSON object per line, or readable lines on a terminal.

Lines pass through a bounded queue to one daemon thread that writes them. A reader that stops reading (a full pipe, a
stopped terminal) blocks that thread alone: calls and the event loop continue, and lines beyond the queue are dropped
and counted.
"""

from __future__ import annotations

import io
import json
import logging
import os
import queue
import select
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any, TextIO

from pydantic_core import PydanticSerializationError, to_json

from shopfloor.domain.times import format_iso_second
from shopfloor.errors import Unavailable

MAX_QUEUED_LINES = 4096

FLUSH_SECONDS = 1.0
"""How long an exit waits for unwritten lines. A pipe that is not read must not delay it further."""

BATCH_SECONDS = 0.01
"""How long the writer collects lines after the first one. Without it every line wakes the thread, which then competes
with the calls for the interpreter lock."""

_STANDARD_FIELDS = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def configure_logging(style: str, level: str, stream: TextIO | None = None) -> logging.Handler:
    """Log to the stream, by default standard error. `style` is json, pretty, or auto (pretty on a terminal)."""
    stream = stream or sys.stderr
    pretty = style == "pretty" or (style == "auto" and stream is not None and stream.isatty())
    handler: logging.Handler
    try:
        # None when the process was started with standard error closed.
        handler = logging.NullHandler() if stream is None else QueuedHandler(stream.fileno(), stream.encoding)
    except io.UnsupportedOperation:
        # A stream in memory, which never blocks.
        handler = logging.StreamHandler(stream)
    handler.setFormatter(_PrettyFormatter() if pretty else _JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("shopfloor").setLevel(level.upper())
    # Otherwise the calling thread would print warnings to the stream, and could block.
    logging.captureWarnings(True)
    return handler


def configure_command_logging() -> None:
    """Print warnings to standard error, unless logging is configured already.

    A store that is temporarily unavailable is left out. The command that it fails says so itself.
    """
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.addFilter(_is_about_more_than_an_outage)
        root.addHandler(handler)


def _is_about_more_than_an_outage(record: logging.LogRecord) -> bool:
    values = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(value, Unavailable) for value in values)


def count_dropped_lines() -> int:
    """Count the log lines of this process that were dropped because they could not be written."""
    handlers = logging.getLogger().handlers
    return sum(handler.dropped for handler in handlers if isinstance(handler, QueuedHandler))


class QueuedHandler(logging.Handler):
    """Hand lines to a writer thread without ever waiting for it."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        super().__init__()
        # A separate, unbuffered descriptor. If a thread blocked in a write held the lock of sys.stderr's buffer, the
        # interpreter would abort at exit; and a descriptor that others close may be reused.
        self._file = io.FileIO(os.dup(descriptor), "wb")
        self._encoding = encoding
        self._queue: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        self._counter_lock = threading.Lock()
        self._reported = 0
        self.dropped = 0
        self._writer = threading.Thread(target=self._write_batches, name="shopfloor-log", daemon=True)
        self._writer.start()

    def createLock(self) -> None:  # noqa: N802 - the standard library's name
        """Create no lock, like logging.NullHandler: the queue has its own."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """Format the record and queue its line. Drop it when the queue is full."""
        # A pipe that was not read once froze the whole server after 32 calls, including its health check.
        if self._queue.qsize() >= MAX_QUEUED_LINES:
            self._count_dropped(1)
            return
        try:
            line = self.format(record)
        except Exception as error:  # noqa: BLE001 - logging.Handler.handleError would write to the blocked stream
            line = self._format_warning(f"A log record of {record.name} cannot be formatted: {type(error).__name__}")
        self._queue.put(line)

    def flush(self) -> None:
        """Wait until the lines queued so far are written, at most FLUSH_SECONDS."""
        written = threading.Event()
        self._queue.put(written)
        written.wait(FLUSH_SECONDS)

    def close(self) -> None:
        """End the writer once it has written the queue. Call flush() first to wait for that."""
        self._queue.put(None)
        super().close()

    def _write_batches(self) -> None:
        batch: list[str | threading.Event | None] = []
        while None not in batch:
            batch = [self._queue.get()]
            time.sleep(BATCH_SECONDS)
            batch += [self._queue.get() for _ in range(self._queue.qsize())]
            lines = [item for item in batch if isinstance(item, str)]
            if not self._write_lines(lines):
                self._count_dropped(len(lines))
            elif self._reported < (dropped := self.dropped):
                count = dropped - self._reported
                if self._write_lines([self._format_warning(f"{count} log lines were dropped: nothing read them")]):
                    self._reported = dropped
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()
        self._file.close()

    def _write_lines(self, lines: list[str]) -> bool:
        """Write everything, and return whether it succeeded. A closed pipe must not end the thread."""
        data = memoryview("".join(f"{line}\n" for line in lines).encode(self._encoding, "backslashreplace"))
        try:
            while data:
                written = self._file.write(data)
                # The parent process made the descriptor non-blocking, and it is full.
                if written is None:
                    select.select([], [self._file], [])
                else:
                    data = data[written:]
        except OSError:
            return False
        return True

    def _count_dropped(self, lines: int) -> None:
        with self._counter_lock:
            self.dropped += lines

    def _format_warning(self, message: str) -> str:
        facts = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": message}
        return self.format(logging.makeLogRecord(facts))


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": f"{format_iso_second(int(record.created))}.{int(record.msecs):03d}+00:00",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # In ASCII: some readers split lines at characters other than \n, and terminals obey control characters.
        try:
            return to_json(line, fallback=str, ensure_ascii=True).decode()
        except PydanticSerializationError:
            # An unpaired surrogate, which json escapes and pydantic rejects.
            return json.dumps(line, default=str)


class _PrettyFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = f"{datetime.fromtimestamp(record.created, UTC).astimezone():%H:%M:%S}"
        fields = " ".join(
            f"{key}={_escape_controls(value)}" for key, value in _extra_fields(record).items() if value is not None
        )
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        text = f"{time} {mark}{_escape_controls(record.getMessage())} {fields}".rstrip()
        if not record.exc_info:
            return text
        return "\n".join([text, *map(_escape_controls, self.formatException(record.exc_info).split("\n"))])


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS}


def _escape_controls(value: Any) -> str:
    """Escape unprintable characters: text written by agents must not control the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(value))
