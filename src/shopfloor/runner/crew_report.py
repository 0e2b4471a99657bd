"""The report of a crew: the work of each agent with its time and cost, failures and their reasons, and the questions to
people."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.crews import AskedQuestion, MergeState
from shopfloor.domain.tasks import State
from shopfloor.domain.times import SECOND
from shopfloor.runner.crew_store import Board

MILLIONTHS = 1_000_000


def write_report(board: Board, questions: Sequence[AskedQuestion], reason: str, left: Sequence[str]) -> str:
    """Write the report of a crew that ends. `left` are worktrees with uncommitted work."""
    crew, runs = board.crew, {run.task: run for run in board.runs if ".task-" in run.name}
    tokens, cost = sum(run.tokens for run in board.runs), sum(run.cost for run in board.runs)
    merged = {merge.task: merge.merged_commit for merge in board.merges if merge.state == "merged"}
    unchanged = list_unchanged(board)
    # The command that continues the crew ends its line, to be easy to copy.
    reason, _, how = reason.partition(". Continue: ")
    lines = [
        f"{reason}.",
        *([f"Continue: {how}"] if how else []),
        "",
        f"Epic: epic-{crew.epic} {board.epic.title}",
        f"Branch: {crew.branch}, merge it with: shopfloor crew merge {crew.name}",
        f"Used: {crew.spent // SECOND} s, {tokens:,} tokens" + (f", ${cost / MILLIONTHS:.2f}" if cost else ""),
        "",
    ]
    for task in board.tasks:
        run = runs.get(task.number)
        took = "" if run is None else f", {run.spent // SECOND} s, {run.tokens} tokens"
        how = f", merged as {(merged[task.number] or '')[:12]}" if task.number in merged else ""
        how = ", without changes" if task.number in unchanged else how
        state = task.state.lower().replace("_", " ")
        lines.append(f"- task-{task.number} {task.title}: {state}, {task.assignee or 'no agent'}{took}{how}")
        if task.state in (State.FAILED, State.BLOCKED) and run is not None and run.reason:
            lines.append(f"  {run.reason}")
    if board.requests or questions:
        lines += ["", "People were asked:", *_describe_requests(board), *_describe_questions(questions)]
    if left:
        lines += ["", "Uncommitted work was left in place:", *(f"- {line}" for line in left)]
    return "\n".join(lines)


def list_unchanged(board: Board) -> list[int]:
    """Return the tasks that were merged without a commit of their own: their agent changed nothing."""
    known, unchanged = {board.crew.base}, []
    for merge in sorted(board.merges, key=lambda merge: merge.updated_at):
        if merge.state is not MergeState.MERGED or merge.merged_commit is None:
            continue
        if merge.merged_commit in known:
            unchanged.append(merge.task)
        known.add(merge.merged_commit)
    return sorted(unchanged)


def _describe_requests(board: Board) -> list[str]:
    """Describe the permissions and plans that people were asked to approve."""
    of_run, lines = {run.name: run for run in board.runs}, []
    for request in board.requests:
        run = of_run[request.run]
        about = f" on task-{run.task}" if run.task else ""
        lines.append(f"- {run.worker}{about}: {request.question.partition(chr(10))[0]}")
        lines.append(_describe_answer(request.answer, request.answered_by))
    return lines


def _describe_questions(questions: Sequence[AskedQuestion]) -> list[str]:
    """Describe the questions that agents asked by mail."""
    lines = []
    for question in questions:
        lines.append(f"- {question.agent} in mail-{question.mail}: {question.subject}")
        lines.append(_describe_answer(question.answer, question.answered_by))
    return lines


def _describe_answer(answer: str | None, by: str | None) -> str:
    first = (answer or "not answered").partition("\n")[0]
    return f"  {first}{f' ({by})' if by else ''}"
