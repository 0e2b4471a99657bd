"""A floor for one command. Loaded when a command runs, not for --help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings


@contextmanager
def opened(settings: Settings) -> Iterator[Shopfloor]:
    """The floor, opened in this process without anything running beside it."""
    shopfloor = Shopfloor(settings, kind="cli")
    try:
        yield shopfloor
    finally:
        shopfloor.close()
