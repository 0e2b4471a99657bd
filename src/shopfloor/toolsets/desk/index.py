"""Tools for the search index."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases.external import ExternalContext

Embeddings = Annotated[bool, Field(description="Also compute embeddings, if the model is installed; default true")]


@toolset.tool("index_show", read_only=True, external=True)
def show_index(external: ExternalContext) -> Json:
    """Show how many files, chunks and embeddings the index has, and how many files wait to be indexed."""
    return external.search.state()


@toolset.tool("index_refresh", external=True, idempotent=True)
def refresh_index(external: ExternalContext, embeddings: Embeddings = True) -> Json:
    """Bring the index up to date and return its state."""
    return external.search.update_all(
        lambda stage, done, total: external.progress(done, total, stage), embeddings=embeddings
    )
