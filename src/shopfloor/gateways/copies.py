"""Copies of the store: backups and exports, and the check for damage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Copies:
    """Operations on the whole store. Each takes as long as reading all of it."""

    back_up: Callable[[Path], dict[str, Any]]
    """Back up to a new file or into a folder, and return the manifest."""
    export: Callable[[Path], dict[str, Any]]
    """Export as JSON lines to a new file, and return the number of rows per table."""
    find_damage: Callable[[], list[str]]
    """Return what is damaged in the store; usually nothing."""
