"""The report of a crew: what was done by which agent, in what time and for what cost, what failed and why, and what
people were asked."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.tasks import State
from shopfloor.domain.times import SECOND
from shopfloor.runner.crew_store import Board

MILLIONTHS = 1_000_000


def write_report(board: Board, reason: str, left: Sequence[str]) -> str:
    """Write the report of a crew that ends. `left` are worktrees with uncommitted work."""
    crew, runs = board.crew, {run.task: run for run in board.runs if ".task-" in run.name}
    tokens, cost = sum(run.tokens for run in board.runs), sum(run.cost for run in board.runs)
    merged = {merge.task: merge.merged_commit for merge in board.merges if merge.state == "merged"}
    lines = [
        f"{reason}.",
        "",
        f"Epic: epic-{crew.epic} {board.epic.title}",
        f"Branch: {crew.branch}, merge it with: shopfloor crew merge {crew.name}",
        f"Used: {tokens:,} tokens" + (f", ${cost / MILLIONTHS:.2f}" if cost else ""),
        "",
    ]
    for task in board.tasks:
        run = runs.get(task.number)
        took = "" if run is None else f", {run.spent // SECOND} s, {run.tokens} tokens"
        how = f", merged as {(merged[task.number] or '')[:12]}" if task.number in merged else ""
        state = task.state.lower().replace("_", " ")
        lines.append(f"- task-{task.number} {task.title}: {state}, {task.assignee or 'no agent'}{took}{how}")
        if task.state in (State.FAILED, State.BLOCKED) and run is not None and run.reason:
            lines.append(f"  {run.reason}")
    if board.requests:
        of_run = {run.name: run for run in board.runs}
        lines += ["", "People were asked:"]
        for request in board.requests:
            run = of_run[request.run]
            about = f" on task-{run.task}" if run.task else ""
            first = request.question.partition("\n")[0]
            by = f" ({request.answered_by})" if request.answered_by else ""
            lines.append(f"- {run.worker}{about}: {first}")
            lines.append(f"  {request.answer or 'not answered'}{by}")
    if left:
        lines += ["", "Uncommitted work was left in place:", *(f"- {line}" for line in left)]
    return "\n".join(lines)
