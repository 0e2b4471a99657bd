"""A floor for one command. Loaded when a command runs, not for --help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from shopfloor.gateways import model
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Call, Toolset


@contextmanager
def opened(settings: Settings) -> Iterator[Shopfloor]:
    """The floor, opened in this process without anything running beside it."""
    shopfloor = Shopfloor(settings, kind="cli")
    try:
        yield shopfloor
    finally:
        shopfloor.close()


def break_something(shopfloor: Shopfloor, caller: str) -> None:
    """Two calls of a tool that does not work, for the demo to show what becomes of those."""
    stock = Toolset(
        "stock", answer=lambda value, _: value, refuse=lambda error, _: {"error": error.message}, acts_as=None,
        may=lambda *_: True, served=False,
    )  # fmt: skip

    @stock.tool("count_stock", read_only=True)
    def count_stock(_: Any) -> None:
        """Count what is in stock."""
        raise RuntimeError("The stock room does not answer")

    for _ in range(2):
        shopfloor.floor.call(Call(stock, "count_stock", {}, shopfloor.credential(caller), "cli"))


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on the terminal for each thing that is under way; nothing where nobody looks."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bars:
        known: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(what)
            bars.update(known[what], completed=done, total=total)

        yield report


def install_model(settings: Settings, report: Callable[[str, int, int], None], package: Path | None) -> Path:
    """Where the local model is, after it was fetched if need be."""
    return model.install(settings.model_cache, lambda what, share: report(what, round(share * 100), 100), package)


def model_installed(settings: Settings) -> bool:
    """Whether the local model is there."""
    return model.installed(settings.model_cache)
