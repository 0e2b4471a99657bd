"""Serve the agent's requests: permissions, files, and notifications about its session."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shopfloor.errors import ClientError, FileNotFound
from shopfloor.runner import permissions
from shopfloor.runner.acp import PermissionRequest
from shopfloor.runner.context import RunContext, cancel_task
from shopfloor.runner.permissions import ALWAYS, ANSWERS, DENY
from shopfloor.runner.session_updates import AgentText, Plan, ToolCallUpdate, UsageReport, format_diff, read_update

MAX_FACT_CHARACTERS = 500
MAX_SHOWN_STEPS = 50


@dataclass(frozen=True, slots=True)
class RunHost:
    """The AgentHost of a run."""

    context: RunContext

    async def choose_permission(self, request: PermissionRequest) -> str | None:
        """Return the id of the option that the rules or a person chose, or None if the question was dropped."""
        context = self.context
        # The run's own tools are recorded as their own calls in the transcript, and always allowed.
        is_shown = not permissions.is_own_tool(request)
        question = context.recorder.record_question(_format_title(request), request.details) if is_shown else None
        answer = await self._decide(request) or await self._ask_person(request)
        if answer is None and not context.is_in_turn:
            context.recorder.record_answer(question, "dropped")
            return None
        answer = answer or DENY
        context.recorder.record_answer(question, answer)
        if answer != DENY and context.current is not None:
            context.current.permitted.update(map(self._resolve, request.paths))
        context.view.show("permission", run=context.name, kind=request.kind, title=request.title, answer=answer)
        return permissions.choose_option(request, answer)

    async def _decide(self, request: PermissionRequest) -> str | None:
        """Return the answer of the policy or the rules, or None if a person must decide."""
        context = self.context
        hooks = [hook.command for hooks in context.settings.hooks.values() for hook in hooks]
        commands = [*await context.work.list_commands(context), *hooks]
        protected = permissions.find_protected_files(context.project, commands)
        rules = context.settings.run_permissions
        return permissions.decide(request, context.options.permissions, rules, context.project, protected)

    def _resolve(self, path: str) -> Path:
        return permissions.resolve_path(self.context.project, path)

    async def _ask_person(self, request: PermissionRequest) -> str | None:
        """Ask a person, and wait until there is an answer, the time is up, or the turn is over."""
        context, store = self.context, self.context.store
        question = permissions.format_question(request)
        if context.run.worker is not None:
            question = f"{context.run.worker}, {context.name}: {question}"
        subject = permissions.make_subject(request)
        if subject in context.always_allowed:
            return ALWAYS
        number, answer = await store.ask_permission(question, ANSWERS, subject)
        if number is None:
            return answer
        context.view.show("permission_asked", run=context.name, number=number, question=question)
        waiting = asyncio.create_task(store.wait_for_answer(number, context.options.permission_time))
        turn_end = asyncio.create_task(context.wait_for_turn_end())
        try:
            # Both clocks are paused: a person's time to answer counts toward no budget.
            with context.clock, context.current.watch if context.current else contextlib.nullcontext():
                await asyncio.wait({waiting, turn_end}, return_when=asyncio.FIRST_COMPLETED)
                # Withdrawing also ends the wait for the answer.
                if not waiting.done():
                    await store.withdraw_request(number)
                answer = await waiting
        finally:
            await cancel_task(turn_end)
            await cancel_task(waiting)
        if answer == ALWAYS:
            context.always_allowed.add(subject)
        context.view.show("permission_answered", run=context.name, number=number, answer=answer)
        return answer

    async def read_file(self, path: str, line: int | None, limit: int | None) -> str:
        """Return the text of a file, or some of its lines. A missing file reads as empty."""
        # Gemini reads a file before it writes it, and treats an error of any code as fatal.
        try:
            text = await self.context.store.read_file(path)
        except FileNotFound:
            return ""
        if line is None and limit is None:
            return text
        lines = text.splitlines(keepends=True)
        first = max((line or 1) - 1, 0)
        return "".join(lines[first : None if limit is None else first + limit])

    async def write_file(self, path: str, content: str) -> None:
        """Replace the text of a file, if allowed: a write is a permission request like any other."""
        context = self.context
        permitted = await self._may_write(path, content)
        # A denied write is a call too, so that it is logged.
        await context.store.write_file(path, content if permitted else "", permitted=permitted)
        context.view.show("file_written", run=context.name, path=path)

    async def _may_write(self, path: str, content: str) -> bool:
        context = self.context
        # An agent that already asked for the edit has its answer, which holds for one write.
        if context.current is not None and self._resolve(path) in context.current.permitted:
            context.current.permitted.discard(self._resolve(path))
            return True
        request = PermissionRequest("edit", "write a file", (path,), ())
        answer = await self._decide(request)
        if answer is None:
            # Read only for a question: a write that needs none must not cost a second call.
            with contextlib.suppress(ClientError):
                diff = format_diff(path, await self.read_file(path, None, None), content)
                answer = await self._ask_person(replace(request, details=diff))
        answer = answer or DENY
        context.view.show("permission", run=context.name, kind="edit", title=f"write {path}", answer=answer)
        return answer != DENY

    def on_update(self, session: str, update: dict[str, Any]) -> None:
        """Show a notification about the session; ignore unknown types."""
        context = self.context
        read = read_update(update)
        context.recorder.record_update(session, read)
        match read:
            case ToolCallUpdate() as call:
                facts = {"id": call.id, "title": call.title, "kind": call.kind, "status": call.status}
                context.view.show("tool_call", run=context.name, **{key: _clip(text) for key, text in facts.items()})
            # A late update of an earlier session must not count toward this one.
            case UsageReport(used, cost) if context.current is not None and session == context.current.session:
                context.current.usage.report_context(used, cost)
            case AgentText("message", text):
                context.view.show("said", run=context.name, text=text)
            case Plan(steps):
                shown = [(_clip(content), status) for content, status in steps[:MAX_SHOWN_STEPS]]
                context.view.show("plan", run=context.name, steps=shown)


def _format_title(request: PermissionRequest) -> str:
    return permissions.format_question(replace(request, details=""))


def _clip(text: str | None) -> str | None:
    return None if text is None else text[:MAX_FACT_CHARACTERS]
