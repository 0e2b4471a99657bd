"""Changes: which files of the project were changed in an iteration, and a commit of just those."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from shopfloor.errors import BadSettings
from shopfloor.runner import processes

_SECONDS = 60.0
_OUTPUT = 16 * 1024 * 1024

Dirty = dict[str, str]
"""Files that differ from the last commit, each with a digest of what is in it."""


async def dirty(project: Path) -> Dirty:
    """The files that git would call changed or new."""
    listed = await _git(project, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    names = [entry[3:] for entry in listed.split("\0") if len(entry) > 3]
    return {name: _digest(project / name) for name in names}


async def commit(project: Path, before: Dirty, message: str) -> list[str]:
    """The files that changed since `before`, committed; what was staged or changed otherwise stays as it was."""
    after = await dirty(project)
    changed = sorted(name for name, digest in after.items() if before.get(name) != digest)
    if changed:
        await _git(project, "add", "--intent-to-add", "--", *changed)
        await _git(project, "commit", "--quiet", "--only", "--file=-", "--", *changed, input=message)
    return changed


async def _git(project: Path, *arguments: str, input: str = "") -> str:
    """What git says; a path is a path, whatever characters are in it."""
    child = await processes.run(
        ("git", "--literal-pathspecs", *arguments), project, seconds=_SECONDS, input=input.encode(), keep=_OUTPUT
    )
    if not child.passed:
        raise BadSettings(f"git {arguments[0]}: {child.said[-300:] or child.failure}")
    return os.fsdecode(child.raw)


def _digest(file: Path) -> str:
    try:
        if file.is_symlink():
            return f"link {file.readlink()}"
        with file.open("rb") as opened:
            return f"{file.stat().st_mode} {hashlib.file_digest(opened, 'sha256').hexdigest()}"
    except OSError:
        return "gone"
