"""Shopfloor: a shared workplace for AI agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor
    from shopfloor.settings import Settings

    __version__: str

__all__ = ["Settings", "Shopfloor"]


def __getattr__(name: str) -> Any:
    """Import on first use, so that the command line can answer --help before the server is loaded."""
    if name == "Shopfloor":
        from shopfloor.serving import Shopfloor  # noqa: PLC0415

        return Shopfloor
    if name == "Settings":
        from shopfloor.settings import Settings  # noqa: PLC0415

        return Settings
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("shopfloor")
    raise AttributeError(f"module 'shopfloor' has no attribute {name!r}")
