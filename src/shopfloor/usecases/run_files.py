"""The files that the agent of a run reads and writes, through the path gate."""

from __future__ import annotations

from shopfloor.domain.runs import check_fence
from shopfloor.errors import PermissionDenied
from shopfloor.gateways.files import Files
from shopfloor.usecases.external import ExternalContext


def read_file(context: ExternalContext, fence: int, path: str) -> str:
    """Return the text of a file of the project; the path may be absolute."""
    files = _open_gate(context, fence)
    return files.read(files.to_relative(path)).data.decode(errors="replace")


def write_file(context: ExternalContext, fence: int, path: str, text: str, *, permitted: bool) -> None:
    """Atomically replace the text of a project file, or reject a write that is not permitted."""
    files = _open_gate(context, fence)
    if not permitted:
        raise PermissionDenied(f"Permission denied: '{path[:200]}' may not be written in this run")
    files.write(files.to_relative(path), text.encode(errors="surrogatepass"))


def _open_gate(context: ExternalContext, fence: int) -> Files:
    """Return the path gate, or reject a driver that has lost its run."""
    check_fence(context.read(lambda uow: uow.runs.get(context.actor.name)), fence)
    return context.gateways.files
