"""Progress bars on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from shopfloor.toolkit import ReportProgress


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[ReportProgress]:
    """Show a bar for each reported message; nothing with `quiet`, or if stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bars:
        known: dict[str, TaskID] = {}

        def report(done: float, total: float | None, message: str | None) -> None:
            name = message or ""
            if name not in known:
                known[name] = bars.add_task(name)
            bars.update(known[name], completed=done, total=total)

        yield report
