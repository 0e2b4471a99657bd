"""Record what an agent says, thinks, plans, calls and asks, in batches.

Hundreds of updates arrive per second. They are joined into entries here, and changed entries are stored every few
seconds. Each session has a limit: beyond it, one last entry counts what was dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from shopfloor.domain.transcripts import (
    MAX_SESSION_CHARACTERS,
    MAX_SESSION_ENTRIES,
    MAX_TEXT_CHARACTERS,
    EntryKind,
    NewEntry,
    clip_text,
)
from shopfloor.errors import ShopfloorError
from shopfloor.runner.session_updates import (
    AgentText,
    Plan,
    SessionUpdate,
    ToolCallUpdate,
    format_diff,
    format_raw_input,
)

FLUSH_SECONDS = 2.0
MAX_BATCH_ENTRIES = 100
_MAX_KEPT_CHARACTERS = 4 * MAX_TEXT_CHARACTERS
"""How much of a text is kept in memory. The store keeps its beginning and its end."""

_PLAN_MARKS = {"completed": "x", "in_progress": "~"}

_log = logging.getLogger("shopfloor.transcript")


class TranscriptStore(Protocol):
    """Where a recorder stores entries: the transcript of a run or of a crew's agent."""

    async def find_next_entry(self) -> int:
        """Return the number of the next entry."""

    async def record_entries(self, session: str, iteration: int, entries: Sequence[NewEntry]) -> None:
        """Store entries. An entry with the number of an earlier one replaces it."""


@dataclass
class OpenEntry:
    """An entry that may still change."""

    number: int
    kind: EntryKind
    created_at: int
    title: str = ""
    status: str = ""
    body: str = ""
    result: str = ""
    dropped: int = 0
    """Characters dropped because the body is too long."""

    def add_text(self, text: str) -> None:
        """Add to the body, up to its limit."""
        space = max(_MAX_KEPT_CHARACTERS - len(self.body), 0)
        self.body += text[:space]
        self.dropped += max(len(text) - space, 0)

    def to_entry(self) -> NewEntry:
        body = f"{self.body}\n… {self.dropped} characters were left out …" if self.dropped else self.body
        return NewEntry(self.number, self.kind, self.title, self.status, body, self.result, self.created_at)


@dataclass
class TranscriptRecorder:
    """Records the sessions of one run or agent. It fails silently: a transcript must not end a run."""

    store: TranscriptStore
    session: str = ""
    iteration: int = 0
    _next: int = 0
    _entries: int = 0
    _characters: int = 0
    _last: OpenEntry | None = None
    _calls: dict[str, OpenEntry] = field(default_factory=dict)
    _changed: dict[int, OpenEntry] = field(default_factory=dict)
    _flushing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin_session(self, session: str, iteration: int, prompt: str, title: str = "") -> None:
        """Store the rest of the previous session, and begin one with its prompt."""
        await self.flush()
        try:
            self._next = await self.store.find_next_entry()
        except ShopfloorError as error:
            _log.warning("the transcript begins without its number: %s", error)
        self.session, self.iteration = session, iteration
        self._entries = self._characters = 0
        self._last, self._calls = None, {}
        entry = self._add(EntryKind.PROMPT, title or f"Prompt of iteration {iteration}")
        entry.add_text(prompt)

    def record_update(self, session: str, update: SessionUpdate | None) -> None:
        """Record a notification of the agent. Ignore late ones of an earlier session."""
        if session != self.session or not self._next:
            return
        match update:
            case AgentText(kind, text):
                self._add_words(EntryKind(kind), text)
            case ToolCallUpdate():
                self._change_call(update)
            case Plan(steps):
                self._replace_plan(steps)

    def record_question(self, title: str, details: str) -> OpenEntry | None:
        """Record the agent's permission request; return the entry, for its answer."""
        if not self.session or not self._next:
            return None
        entry = self._add(EntryKind.PERMISSION, title, "pending")
        entry.add_text(details)
        return entry

    def record_answer(self, question: OpenEntry | None, answer: str) -> None:
        """Record the answer to the agent's question."""
        if question is not None:
            question.status, question.result = "completed", answer
            self._mark_changed(question)

    async def flush(self) -> None:
        """Store changed entries."""
        # One at a time: otherwise an older state of an entry could overwrite a newer one.
        async with self._flushing:
            while self._changed:
                numbers = sorted(self._changed)[:MAX_BATCH_ENTRIES]
                batch = [self._changed.pop(number).to_entry() for number in numbers]
                try:
                    await self.store.record_entries(self.session, self.iteration, batch)
                except ShopfloorError as error:
                    _log.warning("%d entries of the transcript were lost: %s", len(batch), error)

    @asynccontextmanager
    async def flushing(self, also: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Store changed entries every few seconds inside the `with` block, and at its end; await `also` each time."""
        stopped = asyncio.Event()

        async def keep_flushing() -> None:
            while not stopped.is_set():
                # An event instead of a cancelled sleep: cancelling a call in progress would log a failed one.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_SECONDS):
                        await stopped.wait()
                await self.flush()
                await also()

        task = asyncio.create_task(keep_flushing())
        try:
            yield
        finally:
            stopped.set()
            with contextlib.suppress(ShopfloorError):
                await task
            # When an agent loads a session, it repeats all of it in updates.
            self.session = ""

    def _add(self, kind: EntryKind, title: str = "", status: str = "") -> OpenEntry:
        """Add an entry; if the session has too many, return the one that counts dropped entries."""
        if self._last is not None and self._last.kind is EntryKind.DROPPED:
            return self._count_dropped(self._last)
        if self._entries >= MAX_SESSION_ENTRIES or self._characters >= MAX_SESSION_CHARACTERS:
            kind, title, status = EntryKind.DROPPED, "", ""
        entry = OpenEntry(self._next, kind, time.time_ns() // 1000, title[:1000], status)
        self._next += 1
        self._entries += 1
        self._last = entry
        return self._count_dropped(entry) if kind is EntryKind.DROPPED else self._mark_changed(entry)

    def _count_dropped(self, entry: OpenEntry) -> OpenEntry:
        entry.dropped += 1
        entry.title = f"{entry.dropped} more entries of this session were dropped"
        self._mark_changed(entry)
        # A placeholder that is never stored, for the updates that follow.
        return OpenEntry(0, EntryKind.DROPPED, entry.created_at)

    def _mark_changed(self, entry: OpenEntry) -> OpenEntry:
        if entry.number:
            self._changed[entry.number] = entry
        return entry

    def _add_words(self, kind: EntryKind, text: str) -> None:
        """Continue the message or thought if it is the last entry, or begin one."""
        entry = self._last if self._last is not None and self._last.kind is kind else self._add(kind)
        self._characters += len(text) if entry.number else 0
        entry.add_text(text)
        self._mark_changed(entry)

    def _change_call(self, update: ToolCallUpdate) -> None:
        key = f"call {update.id}"
        entry = self._calls.get(key)
        if entry is None:
            entry = self._add(EntryKind.TOOL_CALL, update.kind or "a tool", "pending")
            if entry.number:
                self._calls[key] = entry
        before = len(entry.body) + len(entry.result)
        entry.title = update.title or entry.title
        entry.status = update.status or entry.status
        if update.raw_input:
            entry.body = _format_value(update.raw_input)
        if update.content or update.raw_output:
            # An update has the whole output so far, so it replaces the previous one.
            entry.result = _format_output(update.content) or _format_value(update.raw_output)
        self._characters += len(entry.body) + len(entry.result) - before if entry.number else 0
        self._mark_changed(entry)

    def _replace_plan(self, steps: Sequence[tuple[str, str]]) -> None:
        """Record the plan: replace the previous one if nothing came in between, otherwise add an entry."""
        text = "\n".join(f"- [{_PLAN_MARKS.get(status, ' ')}] {content}" for content, status in steps)
        entry = self._last if self._last is not None and self._last.kind is EntryKind.PLAN else None
        entry = entry or self._add(EntryKind.PLAN, "Plan")
        entry.body = clip_text(text)
        self._characters += len(entry.body) if entry.number else 0
        self._mark_changed(entry)


def _format_output(content: Any) -> str:
    """Format the content of a tool call: its texts, and its file changes as diffs."""
    parts = []
    for item in content if isinstance(content, list) else []:
        if not isinstance(item, dict):
            continue
        inner = item.get("content")
        if item.get("type") == "diff":
            path, old, new = (str(item.get(key) or "") for key in ("path", "oldText", "newText"))
            # Comparing long texts line by line takes time that the agent waits for.
            is_short = len(old) + len(new) <= _MAX_KEPT_CHARACTERS
            parts.append(format_diff(path, old, new) if is_short else f"{path}: {len(old)} → {len(new)} characters")
        elif isinstance(inner, dict) and isinstance(inner.get("text"), str):
            parts.append(inner["text"])
    return clip_text("\n".join(parts), _MAX_KEPT_CHARACTERS)


def _format_value(value: Any) -> str:
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        return clip_text(format_raw_input(value), _MAX_KEPT_CHARACTERS)
    return clip_text(json.dumps(str(value)), _MAX_KEPT_CHARACTERS)
