"""Merge the verified work of single tasks into the branch of a crew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from shopfloor.domain.crews import CrewTask
from shopfloor.runner import verification
from shopfloor.runner.crew_options import CrewOptions
from shopfloor.runner.crew_store import CrewStore
from shopfloor.runner.view import View
from shopfloor.runner.worktrees import Worktrees


class CrewMerger:
    """Prepares the worktrees of a crew, merges its tasks one at a time, and removes the worktrees of merged tasks."""

    def __init__(self, store: CrewStore, options: CrewOptions, worktrees: Worktrees, view: View) -> None:
        self._store = store
        self._options = options
        self._worktrees = worktrees
        self._view = view
        self.removed: set[int] = set()
        """Tasks whose worktree and branch this driver has removed."""
        self._removals: set[asyncio.Task[None]] = set()
        """Removals in progress. The crew waits for them before it ends: git must not be killed halfway."""

    async def prepare_worktree(self, folder: Path, branch: str | None) -> str | None:
        """Create or repair a worktree; return the reason if it cannot be used, or None."""
        if await self._worktrees.ensure_worktree(folder, branch):
            project = self._worktrees.project_of(folder)
            failing = await verification.find_failing_command(self._options.setup, project, 3600.0)
            if failing is not None:
                await self._worktrees.remove_worktree(folder)
                return verification.explain_failure(failing)
        return None

    async def merge(self, found: CrewTask) -> str | None:
        """Apply a task's work to the crew's branch, verify it and move the branch. Return why it was not merged."""
        task, merge = found.task, found.merge
        assert merge is not None
        folder = self._worktrees.folder / "merge"
        fault = await self.prepare_worktree(folder, None)
        if fault is not None:
            return fault
        message = f"task-{task.number}: {task.title}\n\nTask: task-{task.number}\nWorker: {task.assignee}\n"
        commit, is_new = await self._worktrees.squash(folder, merge.commit, message)
        # Without a new commit, the branch already has the work, and nothing is left to verify.
        if is_new:
            commands: list[Sequence[str]] = [*([json.loads(task.acceptance)] if task.acceptance else [])]
            commands += self._options.verify
            project = self._worktrees.project_of(folder)
            seconds = self._options.get_worker(1).verify_time
            failing = await verification.find_failing_command(commands, project, seconds)
            if failing is not None:
                return f"after the merge with the work of others, {verification.explain_failure(failing)}"
        # Stored before the branch moves: after a kill between the two, the next driver finishes the merge.
        await self._store.record_verified(task.number, commit)
        await self.complete(task.number, commit, changed=is_new)
        return None

    async def complete(self, task: int, commit: str, *, changed: bool = True) -> None:
        """Move the crew's branch to a verified commit, unless it already contains it, and complete the task."""
        # The branch has moved since verification, so the work must be verified on the new tip.
        if not await self._worktrees.advance(commit):
            await self._store.requeue_merge(task)
        else:
            await self._store.record_merged(task, commit)
            self._view.show(
                "task_merged", crew=self._store.name, task=f"task-{task}", commit=commit[:12], changed=changed
            )
            removal = asyncio.create_task(self.remove_worktree(task))
            self._removals.add(removal)
            await asyncio.shield(removal)

    async def remove_worktree(self, task: int) -> None:
        """Remove the worktree and the branch of a merged task."""
        await self._worktrees.remove_worktree(self._worktrees.task_folder(task))
        await self._worktrees.delete_branch(self._worktrees.task_branch(task))
        self.removed.add(task)

    async def end_removals(self) -> None:
        """Wait for git to finish removals in progress. `finish` repeats failed ones."""
        await asyncio.gather(*self._removals, return_exceptions=True)
