"""The live view of a run: lines about past events, and below them a panel that is redrawn."""

from __future__ import annotations

import shlex
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from shopfloor.runner.view import format_until

KEYS = {"a": "allow", "w": "always", "d": "deny"}
_SHOWN_CALLS = 6
_SHOWN_STEPS = 8
_SHOWN_LINES = 6
"""Lines of the agent's words that the panel shows, counted from the end."""
_MAX_WORDS = 20_000
_MAX_LINES = 40

_MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "in_progress": ("▸", "cyan")}
_OTHER_MARK = ("○", "dim")
_SILENT_EVENTS = frozenset({"permission", "file_written"})
"""Events left out, because another line or the panel says the same."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the view: a mark, a text, the style of the mark, and a short text that is never cut."""

    mark: str
    text: str
    style: str = ""
    suffix: str = ""


class LiveView:
    """Lines about past events, and below them a panel that is redrawn. Keys answer the agent's questions."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._began = time.monotonic()
        self._run = ""
        self._task = "-"
        self._budget = ""
        self._completed: list[str] = []
        self._steps: list[tuple[str, str]] = []
        self._calls: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._questions: dict[int, str] = {}
        self._words = ""

    def show(self, event: str, **facts: Any) -> None:
        self._run = facts.pop("run", self._run)
        if event in _EVENT_LINES:
            self._print_words()
            self._print(_EVENT_LINES[event]({"run": self._run, **facts}))
        elif (handle := getattr(self, f"_on_{event}", None)) is not None:
            handle(**facts)
        elif event not in _SILENT_EVENTS:
            self._print_words()
            self._print(_format_other_event(event, facts))

    def _on_said(self, text: str) -> None:
        self._words = (self._words + text)[-_MAX_WORDS:]

    def _on_plan(self, steps: list[tuple[str, str]]) -> None:
        self._steps = steps

    def _on_progress(self, task: str = "-", budget: str = "", **_: Any) -> None:
        self._task, self._budget = task, budget

    def _on_task_completed(self, task: str, content: str) -> None:
        self._completed.append(f"{task} {content}")

    def _on_permission_asked(self, number: int, question: str) -> None:
        self._print_words()
        # All of it above the panel, which is cut to the height of the terminal.
        self._questions[number] = question.partition("\n")[0]
        self._print(Line("?", f"question {number}: {question}", "bold yellow"), max_lines=None)

    def _on_permission_answered(self, number: int, answer: str | None) -> None:
        self._questions.pop(number, None)
        self._print(Line("  ·", f"question {number}: {answer or 'not answered'}", "yellow"))

    def _on_tool_call(self, id: str | None = None, **facts: Any) -> None:
        """Add a tool call, or update the one with this id: an update has only changed fields."""
        self._print_words()
        key = id or f"unnamed-{len(self._calls)}"
        status, title = self._calls.get(key, ("pending", ""))
        self._calls[key] = (facts.get("status") or status, facts.get("title") or title or facts.get("kind") or "a tool")
        while len(self._calls) > _SHOWN_CALLS:
            self._calls.popitem(last=False)

    def _on_iteration_ended(self, iteration: int, outcome: str, **facts: Any) -> None:
        """Print the result of the iteration, with its time and tokens; the next one begins with an empty panel."""
        self._print_words()
        tokens = facts.get("tokens") or 0
        used = [_format_seconds(facts.get("seconds") or 0)]
        used += [f"{'~' if facts.get('estimated') else ''}{_format_count(tokens)} tok"] if tokens else []
        suffix = " · ".join(used)
        if facts.get("failure"):
            self._print(Line("  ✗", f"{outcome}: {facts['failure']}", "red", suffix))
        for task in self._completed:
            self._print(Line("  ✓", task, "green", suffix))
        if not self._completed and not facts.get("failure"):
            summary = facts.get("summary") or ("planned" if iteration == 0 else "no task completed")
            self._print(Line("  ·", str(summary), suffix=suffix))
        self._completed, self._steps, self._task = [], [], "-"
        self._calls.clear()

    def _print_words(self) -> None:
        """Print the agent's words so far above the panel."""
        text, self._words = self._words.strip(), ""
        if text:
            lines = [_to_printable(line) for line in text.splitlines()]
            self._console.print(Text("\n".join(f"  {line}" for line in lines), style="italic"), highlight=False)

    def _print(self, line: Line, max_lines: int | None = _MAX_LINES) -> None:
        """Print a line that fits the terminal: cut its text, but not its suffix. Further lines of the text follow
        it."""
        first, *rest = line.text.splitlines() or [""]
        width = max(self._console.width - len(line.mark) - len(line.suffix) - 4, 10)
        shown = Text(f"{line.mark} ", style=line.style)
        shown.append(_cut(_to_printable(first), width), style="")
        shown.append(f"  {line.suffix}" if line.suffix else "", style="dim")
        for more in rest[:max_lines]:
            shown.append(f"\n    {_to_printable(more)}", style="dim")
        if max_lines is not None and len(rest) > max_lines:
            shown.append(f"\n    … {len(rest) - max_lines} more lines", style="dim")
        self._console.print(shown, highlight=False)

    @contextmanager
    def display(self) -> Iterator[None]:
        """Display the panel inside the `with` block."""
        with Live(get_renderable=self.build_panel, console=self._console, refresh_per_second=4, transient=True):
            yield

    def find_answer(self, key: str) -> tuple[int, str] | None:
        """Return the question that a key answers, and the answer; None for other keys."""
        if key.lower() not in KEYS or not self._questions:
            return None
        return next(iter(self._questions)), KEYS[key.lower()]

    def build_panel(self) -> Panel:
        """Render the current state of the run."""
        width = max(self._console.width - 4, 20)
        parts = [Text(_cut(_to_printable(self._task), width), style="bold")] if self._task != "-" else []
        # The steps around the first open one: earlier steps are done, and much later ones can wait.
        first_open = next((at for at, (_, status) in enumerate(self._steps) if status != "completed"), 0)
        begin = max(min(first_open - 2, len(self._steps) - _SHOWN_STEPS), 0)
        parts += [_mark_line(content, status, width) for content, status in self._steps[begin : begin + _SHOWN_STEPS]]
        parts += [_mark_line(title, status, width, "dim") for status, title in self._calls.values()]
        if self._words.strip():
            words = Text(
                "\n".join(map(_to_printable, self._words.strip().splitlines()[-_SHOWN_LINES:])), style="italic"
            )
            parts += list(words.wrap(self._console, width))[-_SHOWN_LINES:]
        for number, question in self._questions.items():
            parts.append(Text(_cut(f"question {number}: {_to_printable(question)}", width), style="bold yellow"))
            parts.append(Text("  a allow once · w allow always · d deny", style="yellow"))
        head = " · ".join(
            part for part in (self._run, _format_seconds(time.monotonic() - self._began), self._budget) if part
        )
        title = Text(_cut(head, width - 4), style="bold")
        return Panel(Group(*(parts or [Text("…", style="dim")])), title=title, title_align="left", border_style="dim")


def _format_verified(facts: dict[str, Any]) -> Line:
    passed, code = facts["exit"] == 0, facts["exit"]
    how = "" if passed else ": took too long" if code is None else f": exit code {code}"
    mark, style = _MARKS["completed" if passed else "failed"]
    return Line(mark, f"{shlex.join(facts['command'])}{how}", style, _format_seconds(facts["seconds"]))


def _format_verified_before(facts: dict[str, Any]) -> Line:
    how = "already pass: they prove little about this work" if facts["passed"] else "fail, as expected"
    return Line("·", f"before the first iteration, the acceptance commands {how}", "dim")


def _format_iteration_started(facts: dict[str, Any]) -> Line:
    again = f", attempt {facts['attempt']}" if facts.get("attempt", 1) > 1 else ""
    return Line("▸", f"iteration {facts['iteration']}{again}", "bold")


def _format_run_ended(facts: dict[str, Any]) -> Line:
    mark, style = _MARKS["completed" if facts["exit"] == 0 else "failed"]
    reason, _, how = str(facts["reason"]).partition(". Continue: ")
    return Line(mark, "\n".join(filter(None, [f"{facts['state']}: {reason}", how])), f"bold {style}")


def _format_other_event(event: str, facts: dict[str, Any]) -> Line:
    known = {key: value for key, value in facts.items() if value not in (None, "", [])}
    text = ", ".join(f"{key} {shlex.join(value) if key == 'command' else value}" for key, value in known.items())
    return Line("·", f"{event.replace('_', ' ')}: {text}", "dim")


_EVENT_LINES: dict[str, Callable[[dict[str, Any]], Line]] = {
    "run_started": lambda facts: Line("▸", f"run {facts['run']}", "bold"),
    "agent_ready": lambda facts: Line("·", " ".join(filter(None, ["agent ready", facts.get("agent")])), "dim"),
    "iteration_started": _format_iteration_started,
    "verified": _format_verified,
    "already_verified": lambda _: Line("✓", "already verified in this iteration, with the same files", "green"),
    "verified_before": _format_verified_before,
    "not_verified": lambda facts: Line("✗", f"not done yet: {facts['verdict']}", "red"),
    "waiting": lambda facts: Line("⏸", f"waiting until {format_until(facts['until'])}: {facts['why']}", "yellow"),
    "paused": lambda facts: Line("⏸", f"paused; continue: shopfloor resume {facts['run']}", "yellow"),
    "asked": lambda facts: Line("?", f"{facts['question']}\n{facts['how']}", "yellow"),
    "committed": lambda facts: Line("  ·", f"committed {len(facts['files'])} files", "dim"),
    "changes": lambda facts: Line("·", f"changed files\n{facts['stat']}", "bold"),
    "agent_failed": lambda facts: Line("✗", f"agent failed: {facts['failure']}", "red"),
    "commit_failed": lambda facts: Line("✗", f"commit failed: {facts['failure']}", "red"),
    "warning": lambda facts: Line("!", facts["text"], "yellow"),
    "run_ended": _format_run_ended,
}
"""The line of each event that has its own."""


def _mark_line(text: str, status: str, width: int, style: str = "") -> Text:
    mark, colour = _MARKS.get(status, _OTHER_MARK)
    line = Text(f"{mark} ", style=colour)
    return line.append(_cut(_to_printable(text), width - 2), style=style)


def _format_seconds(seconds: float) -> str:
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h {whole // 60 % 60:02}m"
    return f"{whole // 60}m {whole % 60:02}s" if whole >= 60 else f"{whole}s"


def _format_count(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def _cut(text: str, width: int) -> str:
    """Cut a text to a number of terminal cells."""
    line = Text(text)
    line.truncate(max(width, 1), overflow="ellipsis")
    return line.plain


def _to_printable(text: str) -> str:
    """Replace control characters: text from agents must not control the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
