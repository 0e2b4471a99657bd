"""The changes that agents made to the project, from git, and the merge of a crew's branch into it.

Git needs the project's folder. On another machine there is nothing to compare, and a merge is rejected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from shopfloor.domain.crew_events import CrewChanged
from shopfloor.domain.crews import OPEN_MERGES, Crew, MergeState
from shopfloor.domain.redaction import redact
from shopfloor.domain.tasks import State
from shopfloor.errors import GitFailed, InvalidState
from shopfloor.gateways.git import FileDiff, Git, run_command
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import crews
from shopfloor.usecases.external import ExternalContext

MAX_FILES = 200
MAX_DIFF_CHARACTERS = 200_000
"""How much of a diff is shown. For further files, only the counts are shown."""

_MAX_CREWS = 20
_DEFAULT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Changes:
    """The changed files, and the source of the comparison: worktree, queue, returned, merged, branch or none."""

    source: str
    files: list[FileDiff]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the work on a task is: a folder in a worktree, or commits of the repository at the folder.

    `project` is the project that a worktree belongs to.
    """

    kind: str
    folder: str
    base: str
    commit: str = ""
    task: int = 0
    project: str = ""


@dataclass(frozen=True, slots=True)
class BranchComparison:
    """A crew's branch compared with the project's: `commits` to merge, and how far it is `behind`."""

    is_here: bool
    project_branch: str = ""
    commits: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True)
class ProjectMerge:
    """The outcome of a merge into the project: the commit, or None when there was nothing to merge.

    `unfinished` are the tasks of the crew whose work is not part of it.
    """

    branch: str
    commit: str | None
    unfinished: tuple[int, ...]


# Diffs


def load_task_changes(external: ExternalContext, number: int) -> Changes:
    """Return the changes of a task: from its worktree while it is in progress, otherwise from its commit."""
    for source in external.read(lambda uow: _list_sources(uow, number, str(external.gateways.files.root))):
        files = _diff_source(source)
        if files is not None:
            return _limit_files(external, source.kind, files)
    return Changes("none", [])


def _list_sources(uow: UnitOfWork, number: int, project: str) -> list[_Source]:
    """List the places where the work on a task may be, newest first."""
    task, merge, found = uow.tasks.get(number), uow.merges.find(number), []
    if task.epic is not None and task.state not in (State.REVIEW, State.COMPLETED, State.CANCELLED):
        for crew in uow.crews.list_of_epic(task.epic, _MAX_CREWS):
            run = uow.runs.find(f"{crew.name}.task-{number}")
            if run is not None:
                found.append(_Source("worktree", run.project, crew.branch, project=crew.project))
    if merge is not None:
        crew = uow.crews.get(merge.crew)
        if merge.state is MergeState.MERGED and merge.merged_commit:
            found.append(_Source("merged", crew.project, f"{merge.merged_commit}^", merge.merged_commit, number))
        else:
            kind = "queue" if merge.state in OPEN_MERGES else "returned"
            found.append(_Source(kind, crew.project, crew.branch, merge.commit))
    elif task.branch_name:
        found.append(_Source("branch", project, "HEAD", task.branch_name))
    return found


def _diff_source(source: _Source) -> list[FileDiff] | None:
    """Return the diff, or None when the work is not there."""
    git = Git(Path(source.folder))
    try:
        if source.project:
            # The top of the worktree: in a folder below it, an agent can make another repository, whose config would
            # name programs for git to run.
            prefix = Git(Path(source.project)).get_prefix()
            git = Git(Path(source.folder.removesuffix(f"/{prefix}")))
        if not git.is_repository():
            return None
        # Names come from agents. From here on, git gets only commit ids.
        commit, onto = git.find_commit(source.commit or "HEAD"), git.find_commit(source.base)
        base = git.find_common_ancestor(onto, commit) if commit is not None and onto is not None else None
        if base is None or commit is None:
            return None
        # Work that the branch already had was merged without a commit: the tip belongs to another task.
        if source.kind == "merged" and not git.get_subject(commit).startswith(f"task-{source.task}:"):
            return []
        return git.diff(base, commit) if source.commit else git.diff_worktree(base)
    except GitFailed:
        # The worktree may be removed while it is read, once its work is merged.
        return None


def _limit_files(external: ExternalContext, kind: str, files: list[FileDiff]) -> Changes:
    """Hide files that the path gate forbids and text that looks like a secret, and limit the length."""
    left, shown, truncated = MAX_DIFF_CHARACTERS, [], len(files) > MAX_FILES
    for file in files[:MAX_FILES]:
        text = "" if external.gateways.files.rules.blocks(file.path.split("/")) else redact(file.text)
        if len(text) > left:
            text, truncated = "", True
        left -= len(text)
        shown.append(FileDiff(file.path, file.added, file.removed, text))
    return Changes(kind, shown, truncated)


# The branch of a crew


def compare_branch(external: ExternalContext, name: str) -> BranchComparison:
    """Compare the crew's branch with the one checked out in the project."""
    crew = external.read(lambda uow: uow.crews.get(name))
    git = Git(Path(crew.project))
    try:
        if not git.is_repository() or git.find_commit(f"refs/heads/{crew.branch}") is None:
            return BranchComparison(is_here=False)
        return BranchComparison(
            is_here=True,
            project_branch=git.get_branch(),
            commits=git.count_commits("HEAD", crew.branch),
            behind=git.count_commits(crew.branch, "HEAD"),
        )
    except GitFailed:
        return BranchComparison(is_here=False)


def merge_crew(external: ExternalContext, name: str) -> ProjectMerge:
    """Merge the crew's branch, which holds verified work only, into the branch checked out in the project.

    It is a fast-forward. If the project has moved on, both are first merged in a separate worktree and verified.
    """
    crew = external.read(lambda uow: uow.crews.get(name))
    unfinished = external.read(lambda uow: _list_unfinished(uow, crew))
    git = Git(Path(crew.project))
    tip = git.find_commit(f"refs/heads/{crew.branch}") if git.is_repository() else None
    if tip is None:
        raise InvalidState(
            f"the branch {crew.branch} is not on this machine in {crew.project}", rule="crew_not_here", crew=name
        )
    head = git.find_commit("HEAD")
    assert head is not None
    if git.is_ancestor(tip, head):
        return ProjectMerge(crew.branch, None, unfinished)
    commit = tip if git.is_ancestor(head, tip) else _merge_and_verify(git, crew, head, tip)
    try:
        git.fast_forward(commit)
    except GitFailed as failed:
        facts = {"rule": "project_changed", "crew": name}
        raise InvalidState(f"Not merged: {failed.message}", **facts) from None
    external.write(lambda uow: uow.emit(CrewChanged(crew=name)))
    return ProjectMerge(crew.branch, commit, unfinished)


def _list_unfinished(uow: UnitOfWork, crew: Crew) -> tuple[int, ...]:
    done = (State.COMPLETED, State.CANCELLED)
    return tuple(task.number for task in crews.list_tasks(uow, crew) if task.state not in done)


def _merge_and_verify(git: Git, crew: Crew, head: str, tip: str) -> str:
    """Merge in a separate worktree, prepare and verify it there, and return the commit."""
    options = json.loads(crew.options or "{}")
    seconds = next((kind.get("verify_time") for kind in options.get("worker", [])), None) or _DEFAULT_SECONDS
    commands = [*options.get("setup", []), *options.get("verify", [])]
    facts = {"rule": "crew_merge_failed", "crew": crew.name, "branch": crew.branch}
    try:
        with git.merge_apart(head, tip, f"Merge {crew.branch}") as (folder, commit):
            for command in commands:
                code, output = run_command(command, folder, seconds)
                if code != 0:
                    how = f"took longer than {seconds:g} s" if code is None else f"fails with exit code {code}"
                    shown = f"`{' '.join(command)}` {how} after the merge\n{output[-4000:]}".strip()
                    raise InvalidState(f"Not merged: {shown}", **facts)
            return commit
    except GitFailed as failed:
        raise InvalidState(f"Not merged: {failed.message}", **facts) from None
