"""Tools for the files that a driven agent reads and writes, through the path gate."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.toolkit import Json
from shopfloor.toolsets.run.contract import Fence, toolset
from shopfloor.usecases import run_files
from shopfloor.usecases.external import ExternalContext

Path = Annotated[str, Field(description="The path, absolute or relative to the project")]


@toolset.tool("file_read", read_only=True, external=True)
def read_file(context: ExternalContext, fence: Fence, path: Path) -> Json:
    """Return the text of a file of the project."""
    return {"text": run_files.read_file(context, fence, path)}


@toolset.tool("file_write", external=True)
def write_file(
    context: ExternalContext,
    fence: Fence,
    path: Path,
    text: Annotated[str, Field(description="The whole text")],
    permitted: Annotated[bool, Field(description="Whether the rules or a person allowed it")],
) -> None:
    """Atomically replace the text of a project file. A write that is not permitted is rejected here."""
    run_files.write_file(context, fence, path, text, permitted=permitted)
