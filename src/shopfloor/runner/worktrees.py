"""Git for a crew: a worktree and a branch for each task, and the branch that verified work is merged into.

Every step can be repeated after a kill at any moment: a branch only ever moves forward, by compare-and-swap, and an
agent's files are not removed before its work is merged.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shopfloor.errors import BadSettings, GitFailed, MergeConflict
from shopfloor.gateways.files import open_regular_file
from shopfloor.runner.git import IGNORE_SUBMODULES, run_git


@dataclass(frozen=True)
class Worktrees:
    """The worktrees of one crew. `top` is the top of the repository, `prefix` the project's path below it."""

    top: Path
    prefix: str
    folder: Path
    crew: str
    branch: str
    in_sandbox: bool = False
    """Agents work on a detached HEAD, because a sandbox cannot write branches. Branches move when work is committed."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def task_branch(self, task: int) -> str:
        """Return the branch of a task."""
        return f"{self.branch.rpartition('/')[0]}/task-{task}"

    def task_folder(self, task: int) -> Path:
        """Return the top of the worktree of a task."""
        return self.folder / f"task-{task}"

    def project_of(self, folder: Path) -> Path:
        """Return the project's folder in a worktree."""
        return folder / self.prefix

    def _get_merge_mark(self, folder: Path) -> Path:
        """Return a file that exists while a merge of ours writes into the worktree."""
        # Not in the worktree's git folder, where an agent in a sandbox could make it a link to a file elsewhere.
        return self.folder / f".merging-{folder.name}"

    async def ensure_branch(self, base: str) -> None:
        """Create the branch of the crew at the base if it is missing."""
        if await self.find_commit(self.branch) is not None:
            return
        # A crew of the same epic on another machine may start at a commit that was never pushed.
        if await self.find_commit(base) is None:
            raise BadSettings(
                f"The crew begins at the commit {base[:12]}, which {self.top} does not have",
                hint=f"Fetch it, then run `shopfloor crew resume {self.crew}`",
            )
        try:
            await _git(self.top, "update-ref", f"refs/heads/{self.branch}", base, "")
        except GitFailed:
            # Crews share the branch of an epic: another one may have created it at the same moment.
            if await self.find_commit(self.branch) is None:
                raise

    async def find_commit(self, name: str) -> str | None:
        """Return the commit of a branch or another revision, or None."""
        with contextlib.suppress(GitFailed):
            return (await _git(self.top, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")).strip()
        return None

    async def get_tip(self) -> str:
        """Return the last commit of the crew's branch."""
        return (await _git(self.top, "rev-parse", "--verify", f"refs/heads/{self.branch}")).strip()

    async def ensure_worktree(self, folder: Path, branch: str | None) -> bool:
        """Create a worktree, or repair the one that a killed process left. Return whether it is new.

        It is on the branch, which is created at the tip of the crew's branch if it is missing. Without a branch, it is
        detached there.
        """
        async with self._lock:
            if (folder / ".git").is_file() and (git_folder := await _find_git_folder(folder)) is not None:
                # No git command runs in a worktree before its agent starts: a killed process left these.
                for name in ("index.lock", "HEAD.lock"):
                    (git_folder / name).unlink(missing_ok=True)
                if self.in_sandbox and branch is not None:
                    await _git(folder, "checkout", "--quiet", "--detach")
                return False
            # Without .git, no agent has ever worked here: `git worktree add` was killed.
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            words = ["worktree", "add", "--quiet", "--force", "--force"]
            if self.in_sandbox:
                return await self._add_in_sandbox(words, folder, branch)
            if branch is None:
                words += ["--detach", str(folder), self.branch]
            elif await self.find_commit(f"refs/heads/{branch}") is not None:
                words += [str(folder), branch]
            else:
                words += ["-b", branch, str(folder), self.branch]
            await _git(self.top, *words)
            return True

    async def _add_in_sandbox(self, words: Sequence[str], folder: Path, branch: str | None) -> bool:
        """Add a detached worktree, and write its files in the sandbox: a hook may be a file that an agent committed."""
        start = self.branch
        if branch is not None:
            start = branch
            if await self.find_commit(f"refs/heads/{branch}") is None:
                await _git(self.top, "update-ref", f"refs/heads/{branch}", f"refs/heads/{self.branch}", "")
        await _git(self.top, *words, "--no-checkout", "--detach", str(folder), start)
        await _git(folder, "reset", "--quiet", "--hard")
        return True

    async def remove_worktree(self, folder: Path) -> None:
        """Remove a worktree whose work is merged, even if a killed `git worktree remove` left it half removed."""
        async with self._lock:
            self._get_merge_mark(folder).unlink(missing_ok=True)
            remove = ("worktree", "remove", "--force", "--force", str(folder))
            if (folder / ".git").exists():
                with contextlib.suppress(GitFailed):
                    await _git(self.top, *remove)
                    return
            # Git removes the files first and its own entry last. It refuses a folder without .git.
            shutil.rmtree(folder, ignore_errors=True)
            entries = (await _git(self.top, "worktree", "list", "--porcelain")).splitlines()
            if f"worktree {await asyncio.to_thread(folder.resolve)}" in entries:
                await _git(self.top, *remove)

    async def delete_branch(self, branch: str) -> None:
        """Delete a branch whose work is merged."""
        async with self._lock:
            with contextlib.suppress(GitFailed):
                await _git(self.top, "branch", "--quiet", "-D", branch)

    async def check_out(self, folder: Path, commit: str) -> None:
        """Check a commit out in a detached worktree."""
        await _git(folder, "checkout", "--quiet", "--force", "--detach", commit)

    async def commit_all(self, folder: Path, message: str) -> str:
        """Commit everything in a worktree, and return its last commit. Reject unresolved conflicts."""
        if await has_changes(folder):
            # Before `add`, which would resolve the conflict for git: the next prompt must name the files again.
            if marked := await self._list_marked_files(folder):
                raise GitFailed(f"conflicts are not resolved in {', '.join(marked)}")
            await _git(folder, "add", "--all")
            await _git(folder, "commit", "--quiet", "--file=-", input=message)
            return await get_head(folder)
        head, merge_head = (await _git(folder, "rev-parse", "HEAD", "--git-path", "MERGE_HEAD")).splitlines()
        if not (folder / merge_head).exists():
            return head
        await _git(folder, "commit", "--quiet", "--file=-", input=message)
        return await get_head(folder)

    async def publish_commit(self, branch: str, commit: str) -> None:
        """Move a task's branch to a commit that a sandbox made on a detached HEAD."""
        if self.in_sandbox:
            await _git(self.top, "update-ref", f"refs/heads/{branch}", commit)

    async def is_merging(self, folder: Path) -> bool:
        """Report whether the worktree has an uncommitted merge."""
        with contextlib.suppress(GitFailed):
            return bool(await _git(folder, "rev-parse", "--verify", "--quiet", "MERGE_HEAD"))
        return False

    async def update_from_crew(self, folder: Path) -> list[str]:
        """Merge the crew's branch into a task's branch. Return the files with conflicts, which stay in the worktree."""
        mark = self._get_merge_mark(folder)
        if mark.exists():
            # The driver was killed during the merge: git writes the files before it records the merge. The worktree was
            # clean before, and no agent has worked in it since.
            await _git(folder, "reset", "--quiet", "--hard")
            await _git(folder, "clean", "--quiet", "--force", "-d")
        elif await self.is_merging(folder) or await has_changes(folder):
            return await self.list_conflicts(folder)
        mark.touch()
        conflicts: list[str] = []
        try:
            await _git(folder, "merge", "--quiet", "--no-edit", self.branch)
        except GitFailed:
            conflicts = await self.list_conflicts(folder)
            if not conflicts:
                raise
        mark.unlink()
        return conflicts

    async def squash(self, folder: Path, commit: str, message: str) -> tuple[str, bool]:
        """Squash a task's work onto the tip of the crew's branch in a detached worktree.

        Return the commit, and whether it is new: the branch may already have the work.
        """
        tip = await self.get_tip()
        await _git(folder, "checkout", "--quiet", "--force", "--detach", tip)
        await _git(folder, "clean", "--quiet", "--force", "-d")
        try:
            await _git(folder, "merge", "--quiet", "--squash", commit)
        except GitFailed as failed:
            conflicts = await self.list_conflicts(folder)
            await _git(folder, "reset", "--quiet", "--hard", tip)
            if not conflicts:
                raise
            raise MergeConflict("\n".join(["it conflicts with work that was merged before in", *conflicts])) from failed
        if not await _git(folder, "status", "--porcelain", "--untracked-files=no"):
            return tip, False
        await _git(folder, "commit", "--quiet", "--no-verify", "--file=-", input=message)
        return await get_head(folder), True

    async def is_ancestor(self, older: str, newer: str) -> bool:
        """Report whether a commit is part of another's history."""
        try:
            await _git(self.top, "merge-base", "--is-ancestor", older, newer)
        except GitFailed:
            return False
        return True

    async def advance(self, commit: str) -> bool:
        """Fast-forward the crew's branch to a verified commit, unless it contains it. Return False if it has moved
        since."""
        tip, *parents = (await _git(self.top, "rev-parse", f"refs/heads/{self.branch}", f"{commit}^@")).splitlines()
        # `squash` made it on the tip at that time.
        if tip not in parents:
            return commit == tip or await self.is_ancestor(commit, tip)
        for entry in (await _git(self.top, "worktree", "list", "--porcelain")).split("\n\n"):
            lines = entry.splitlines()
            if f"branch refs/heads/{self.branch}" in lines:
                # A person has it checked out: their files must follow, or git would show the merge as undone.
                await _git(Path(lines[0].removeprefix("worktree ")), "merge", "--quiet", "--ff-only", commit)
                return True
        try:
            await _git(self.top, "update-ref", f"refs/heads/{self.branch}", commit, tip)
        except GitFailed:
            return False
        return True

    async def diff(self, commit: str, characters: int) -> str:
        """Return the changes of a task's commit to the crew's branch, cut to a maximum length."""
        text = await _git(self.top, "diff", f"{self.branch}...{commit}")
        return text if len(text) <= characters else f"{text[:characters]}\n… {len(text) - characters} more characters"

    async def list_conflicts(self, folder: Path) -> list[str]:
        """Return the files of a worktree with unresolved conflicts, including those that the agent has staged."""
        unmerged = (await _git(folder, "diff", "--name-only", "--diff-filter=U")).splitlines()
        return sorted({*unmerged, *await self._list_marked_files(folder)})

    async def _list_marked_files(self, folder: Path) -> list[str]:
        """Return the changed files that still have conflict markers."""
        # Not `diff --check`, which takes the underline of a seven-letter heading for a marker.
        changed = await _git(folder, "diff", "--name-only", "-z", "-G^<{7} ", "HEAD")
        paths = dict.fromkeys(filter(None, changed.split("\0")))
        return [path for path in paths if await asyncio.to_thread(_has_conflict, folder / path)]


async def find_repository(project: Path) -> tuple[Path, str]:
    """Return the top of the repository and the project's path below it; raise BadSettings without a commit."""
    try:
        top = (await _git(project, "rev-parse", "--show-toplevel")).strip()
        prefix = (await _git(project, "rev-parse", "--show-prefix")).strip()
    except GitFailed:
        raise BadSettings(
            f"A crew needs a git repository, and {project} is not in one", hint="Run `git init`, and commit your files"
        ) from None
    try:
        await _git(project, "rev-parse", "--verify", "--quiet", "HEAD")
    except GitFailed:
        raise BadSettings(
            "A crew needs a commit to start from, and the repository has none", hint="Commit your files first"
        ) from None
    try:
        await _git(project, "var", "GIT_COMMITTER_IDENT")
    except GitFailed:
        hint = "Run `git config user.name NAME` and `git config user.email ADDRESS`"
        raise BadSettings("A crew commits, but git does not know your name", hint=hint) from None
    return Path(top), prefix


async def has_changes(folder: Path) -> bool:
    """Report whether a worktree has uncommitted changes."""
    return (folder / ".git").exists() and bool(await _git(folder, "status", "--porcelain", IGNORE_SUBMODULES))


async def count_uncommitted_files(project: Path) -> int:
    """Count the tracked files in the project's repository that have uncommitted changes."""
    status = await _git(project, "status", "--porcelain", "--untracked-files=no", IGNORE_SUBMODULES)
    return len(status.splitlines())


async def get_head(project: Path) -> str:
    """Return the last commit of the project's current branch."""
    return (await _git(project, "rev-parse", "HEAD")).strip()


def _has_conflict(file: Path) -> bool:
    """Report whether a file has both the first and the last conflict marker."""
    if (opened := open_regular_file(file)) is None:
        return False
    with opened as stream:
        text = stream.read()
    return all(re.search(mark, text, re.MULTILINE) for mark in (rb"^<{7} ", rb"^>{7} "))


async def _find_git_folder(folder: Path) -> Path | None:
    """Return the git folder of a worktree; None without one that has a commit."""
    try:
        lines = await _git(folder, "rev-parse", "HEAD", "--absolute-git-dir")
    except GitFailed:
        return None
    return Path(lines.partition("\n")[2].rstrip("\n"))


async def _git(folder: Path, *words: str, input: str = "") -> str:
    return (await run_git(folder, words, input=input)).decode(errors="replace")
