"""Find the files of the project that an iteration changed, and commit only those."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from shopfloor.errors import GitFailed
from shopfloor.gateways.files import copy_regular_file, open_regular_file
from shopfloor.runner import processes
from shopfloor.runner.sandbox import find_git_folders

_TIMEOUT_SECONDS = 300.0
# A folder that looks like a bare repository may have been made by an agent, with a config that names programs.
_CONFIG = ("-c", "gc.auto=0", "-c", "rerere.enabled=false", "-c", "safe.bareRepository=explicit")
_OUTPUT_BYTES = 16 * 1024 * 1024
_MAX_OUTPUT_CHARACTERS = 4000
_REAPED = frozenset({"add", "checkout", "commit", "merge", "reset", "worktree add", "worktree remove"})
"""Commands that run hooks or filters of the repository or write its files: they may take long and start any program."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

IGNORE_SUBMODULES = "--ignore-submodules=dirty"
"""Uncommitted changes in a repository inside the worktree are not part of a commit. To find them, git would run what its
config names, such as filters. An agent may have written that config, and not every command runs in a sandbox."""

BRANCH_PREFIX = "shopfloor/"

DirtyFiles = dict[str, str]
"""Files that differ from the last commit, each with a digest of its content."""


async def find_dirty_files(project: Path) -> DirtyFiles:
    """Find the project's changed and untracked files, named from the top of the repository."""
    root = await _find_repository(project)
    arguments = (
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        IGNORE_SUBMODULES,
        "--",
        ".",
    )
    status = await _run_git(project, *arguments)
    files: DirtyFiles = {}
    for name in (entry[3:] for entry in status.split("\0") if len(entry) > 3):
        file, files[name] = root / name, "gone"
        try:
            # Compare a link by its target's name. Following it would hash a file outside the project.
            if file.is_symlink():
                files[name] = f"link {file.readlink()}"
                continue
        except OSError:
            continue
        if (opened := open_regular_file(file)) is None:
            continue
        with opened as stream:
            mode, digest = os.fstat(stream.fileno()).st_mode, hashlib.file_digest(stream, "sha256")
            files[name] = f"{mode} {digest.hexdigest()}"
    return files


async def check_repository(project: Path) -> None:
    """Raise GitFailed if the project is not in a repository."""
    await _find_repository(project)


async def commit_changes(project: Path, before: DirtyFiles, message: str) -> list[str]:
    """Commit the files that changed since `before` and return their names. Leave other staged or changed files as they
    are."""
    root, after = await _find_repository(project), await find_dirty_files(project)
    changed = sorted(name for name, digest in after.items() if before.get(name) != digest)
    if not changed:
        return []
    with tempfile.TemporaryDirectory() as folder:
        # Not as arguments: the names of ten thousand files are too long for a command line.
        names = Path(folder) / "names"
        names.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in changed))
        paths = (f"--pathspec-from-file={names}", "--pathspec-file-nul")
        # --only commits these files as they are on disk and leaves the index alone, so that the commit does not sweep in
        # what a person has staged. It ignores untracked files, hence --intent-to-add first.
        await _run_git(root, "add", "--intent-to-add", *paths, scratch=Path(folder))
        await _run_git(root, "commit", "--quiet", "--only", "--file=-", *paths, input=message, scratch=Path(folder))
    return changed


async def find_prefix(project: Path) -> str | None:
    """Return the project's path from the top of its repository; None without a repository that has a commit."""
    try:
        await _run_git(project, "rev-parse", "--verify", "--quiet", "HEAD")
        return (await _run_git(project, "rev-parse", "--show-prefix")).rstrip("\n")
    except GitFailed:
        return None


async def add_worktree(project: Path, folder: Path, branch: str) -> None:
    """Add a worktree of the last commit at `folder`, on a new branch."""
    await _run_git(project, "worktree", "add", "--quiet", "-b", branch, str(folder), "HEAD")


async def detach_head(project: Path) -> None:
    """Detach the HEAD of a worktree: a commit in a sandbox cannot write a branch."""
    await _run_git(project, "checkout", "--quiet", "--detach")


async def publish_commits(worktree: Path, branch: str) -> None:
    """Move a branch to the last commit of a detached worktree."""
    head = (await _run_git(worktree, "rev-parse", "--abbrev-ref", "HEAD")).strip()
    commit = (await _run_git(worktree, "rev-parse", "--verify", "HEAD^{commit}")).strip()
    if head != "HEAD" or _COMMIT.fullmatch(commit) is None:
        return
    # In the repository itself, outside the sandbox: only its own config and hooks apply there.
    _, common = find_git_folders(worktree)
    await run_git(common, ("update-ref", f"refs/heads/{branch}", commit), (f"--git-dir={common}",))


async def snapshot_tree(project: Path) -> str | None:
    """Store the project's files, including changed and untracked ones, as a git tree; None without a repository."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            index = (await _run_git(project, "rev-parse", "--git-path", "index")).rstrip("\n")
            return await _write_tree(project, project / index, {"GIT_INDEX_FILE": f"{folder}/index"}, Path(folder))
        except (GitFailed, OSError):
            return None


async def fingerprint_tree(project: Path) -> str:
    """Return a text that changes with any file that git does not ignore; empty without a repository.

    A commit changes no file, so the text stays the same.
    """
    try:
        async with _discarding_objects(project) as (index, environment, scratch):
            return await _write_tree(project, index, environment, scratch)
    except (GitFailed, OSError):
        return ""


async def diff_tree(project: Path, base: str, *options: str) -> str | None:
    """Return the project's changes since a snapshot; None if they cannot be determined."""
    try:
        async with _discarding_objects(project) as (index, environment, scratch):
            tree = await _write_tree(project, index, environment, scratch)
            # --no-ext-diff and --no-textconv: the project's git config must not choose a program that reads the files.
            arguments = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", *options, base, tree, "--", ".")
            return await _run_git(project, *arguments, environment=environment, scratch=scratch)
    except (GitFailed, OSError):
        return None


@asynccontextmanager
async def _discarding_objects(project: Path) -> AsyncIterator[tuple[Path, dict[str, str], Path]]:
    """Yield the index, an environment in which git stores new objects in a temporary folder, and that folder.

    An agent may have written gigabytes that are never committed, and the repository must not keep them.
    """
    paths = await _run_git(project, "rev-parse", "--git-path", "index", "--git-path", "objects")
    index, objects = paths.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "objects").mkdir()
        environment = {
            "GIT_INDEX_FILE": f"{folder}/index",
            "GIT_OBJECT_DIRECTORY": f"{folder}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((project / objects).resolve()),
        }
        yield project / index, environment, Path(folder)


async def _write_tree(project: Path, index: Path, environment: Mapping[str, str], scratch: Path) -> str:
    """Write the project's files as a tree, using a copy of its index, and return the tree's id."""
    # The copy keeps git's knowledge of unchanged files, so it reads only changed ones. The copy also keeps the index's
    # timestamp, because git considers a file unchanged if its size is the same and it is older than the index.
    copy_regular_file(index, Path(environment["GIT_INDEX_FILE"]))
    await _run_git(project, "add", "--all", "--", ".", environment=environment, scratch=scratch)
    return (await _run_git(project, "write-tree", environment=environment, scratch=scratch)).strip()


async def _find_repository(project: Path) -> Path:
    # git names files from the top of the repository, which may be above the project.
    return Path((await _run_git(project, "rev-parse", "--show-toplevel")).rstrip("\n"))


async def _run_git(
    project: Path,
    *words: str,
    input: str = "",
    environment: Mapping[str, str] | None = None,
    scratch: Path | None = None,
) -> str:
    # Literal: a file that an agent names `*` or `:(top)` must not become a pattern.
    options = ("--literal-pathspecs",)
    return os.fsdecode(await run_git(project, words, options, input, environment, scratch))


async def run_git(
    folder: Path,
    words: Sequence[str],
    options: Sequence[str] = (),
    input: str = "",
    environment: Mapping[str, str] | None = None,
    scratch: Path | None = None,
) -> bytes:
    """Run git and return its output, or raise GitFailed. In a sandbox, git may write to the folder `scratch`."""
    try:
        result = await processes.run_command(
            ("git", *options, *_CONFIG, *words),
            folder,
            seconds=_TIMEOUT_SECONDS,
            environment=environment,
            input=input.encode(),
            tail_bytes=_OUTPUT_BYTES,
            scratch=scratch,
            # A reaper takes ten times as long as a command that starts no other process. Such a command ends quickly,
            # even if the runner is killed.
            reaped=not _REAPED.isdisjoint({words[0], " ".join(words[:2])}),
        )
    except OSError as error:
        raise GitFailed(f"git {words[0]}: {error.strerror}") from error
    if not result.passed:
        raise GitFailed(f"git {words[0]}: {result.output[-_MAX_OUTPUT_CHARACTERS:] or result.failure}")
    return result.raw_output
