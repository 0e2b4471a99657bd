"""Tools for boards: what there is, one board by its states, one task with all around it, and moves by hand."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.epics import EPIC_MOVES, Epic, EpicState
from shopfloor.domain.loops import task_id
from shopfloor.domain.pages import PAGE, listed, read_number_cursor, wanted, write_cursor
from shopfloor.domain.tasks import DEFAULT_PRIORITY, MOVES, BoardKind, State, Task
from shopfloor.domain.times import DAY, iso, iso_or_none
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.log import brief
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import boards, claims, epics, tasks
from shopfloor.usecases.boards import KEPT_DAYS

COLUMN = 30

Kind = Annotated[Literal["epic", "loop"], Field(description="Of the board: epic (the default for one task) or loop")]
Board = Annotated[
    str, Field(description="The epic's number (nothing: tasks of no epic), or the loop's name", max_length=64)
]
Number = Annotated[int, Field(description="The task's number", ge=1, le=2**62)]
Others = Annotated[list[Number], Field(description="Numbers of tasks, at most 100", max_length=100)]
EpicNumber = Annotated[int, Field(description="The epic's number", ge=1, le=2**62)]
StateName = Annotated[
    Literal["PENDING", "ASSIGNED", "IN_PROGRESS", "REVIEW", "BLOCKED", "COMPLETED", "FAILED", "CANCELLED"],
    Field(description="A state of a task"),
]
EpicStateName = Annotated[
    Literal["PLANNING", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"], Field(description="A state of an epic")
]
Comment = Annotated[str, Field(description="1-65536 characters", min_length=1, max_length=65536)]
Priority = Annotated[int, Field(description="0 critical to 4 backlog, default 2", ge=0, le=4)]
Text = Annotated[
    str | None, Field(description="Only tasks with this in number, title or assignee; 200 characters", max_length=200)
]
Title = Annotated[str, Field(description="1-500 characters", min_length=1, max_length=500)]
Description = Annotated[str, Field(description="Markdown, at most 65536 characters", max_length=65536)]
AgentId = Annotated[str, Field(description="The agent's name", min_length=1, max_length=64)]
Version = Annotated[int | None, Field(description="Refuse if the task has changed since this version", ge=1)]


@toolset.tool("board_epics", read_only=True)
def list_epics(work: Work, limit: Limit = None, cursor: Cursor = None) -> Json:
    """The epics, newest first, each with how many tasks are in which state."""
    rows = work.epics.page(limit=wanted(limit), before=read_number_cursor("epics", cursor))
    return listed("epics", rows, limit, lambda epic: _epic(work, epic), lambda epic: epic.id)


@toolset.tool("board_show", read_only=True)
def show(
    work: Work,
    kind: Kind,
    board: Board = "",
    state: StateName | None = None,
    text: Text = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """One board: its tasks by state, with the moves that are allowed from each."""
    found = boards.columns(
        work,
        BoardKind(kind),
        _board(kind, board),
        limit=limit or (PAGE if state else COLUMN),
        state=None if state is None else State(state),
        after=read_number_cursor("board", cursor),
        text=text or None,
    )
    return {
        "kind": kind,
        "board": board,
        "title": _title(work, kind, board),
        "epic": _epic(work, work.epics.get(int(board))) if kind == "epic" and board else None,
        "columns": [
            {
                "state": column.state.value,
                "count": column.count,
                "counted": column.count < boards.COUNTED,
                "searched": column.searched,
                "moves": [each.value for each in MOVES[BoardKind(kind)].get(column.state, ())],
                "tasks": [spell_task(task) for task in column.tasks],
                **({} if column.more_after is None else {"nextCursor": write_cursor("board", column.more_after)}),
            }
            for column in found
        ],
        "deleted": [spell_task(task) for task in work.tasks.deleted(work.now - KEPT_DAYS * DAY, COLUMN)]
        if kind == "epic" and state is None
        else [],
    }


@toolset.tool("task_show", read_only=True)
def task_show(work: Work, number: Number, kind: Kind = "epic", board: Board = "") -> Json:
    """One task with what it waits for, what waits for it, its comments, attempts and history."""
    found = boards.around(work, BoardKind(kind), _board(kind, board), number)
    task = found.task
    return {
        **spell_task(task),
        "description": task.description or "",
        "worktreePath": task.worktree_path,
        "branchName": task.branch_name,
        "prUrl": task.pr_url,
        "acceptance": task.acceptance,
        "leaseExpiresAt": iso(claims.lease_end(work, task))
        if task.state is State.IN_PROGRESS and task.assignee
        else None,
        "boardTitle": _title(work, kind, task.board),
        "blockers": [spell_task(each) for each in found.blockers],
        "dependents": [spell_task(each) for each in found.dependents],
        "moves": [state.value for state in found.moves],
        "comments": [
            {"id": comment.id, "author": comment.author, "body": comment.body, "createdAt": iso(comment.created_at)}
            for comment in found.comments
        ],
        "history": [brief(entry) for entry in found.history],
    }


@toolset.tool("task_move")
def move(
    work: Work, number: Number, state: StateName, kind: Kind = "epic", board: Board = "", comment: Comment | None = None
) -> Json:
    """Move a task to another state; an illegal move is refused and names the allowed ones."""
    return spell_task(boards.move(work, BoardKind(kind), _board(kind, board), number, State(state), comment))


@toolset.tool("task_assign")
def assign(work: Work, number: Number, agent_id: AgentId) -> Json:
    """Give a task to an agent, which is told by mail."""
    return spell_task(claims.assign(work, number, agent_id))


@toolset.tool("task_comment")
def comment(work: Work, number: Number, body: Comment) -> Json:
    """Write a comment on a task."""
    task = work.tasks.get(number)
    written = tasks.comment(work, task, body)
    tasks.changed(work, task)
    return {"comment": written}


@toolset.tool("task_create")
def create(
    work: Work,
    title: Title,
    epic: EpicNumber | None = None,
    description: Description = "",
    priority: Priority = DEFAULT_PRIORITY,
) -> Json:
    """Create a task of an epic, or of none."""
    return spell_task(
        tasks.create(work, title=title, description=description, epic=epic, priority=priority, depends_on=[])
    )


@toolset.tool("task_edit", idempotent=True)
def edit(
    work: Work,
    number: Number,
    title: Title | None = None,
    description: Description | None = None,
    priority: Priority | None = None,
    add_depends_on: Others | None = None,
    remove_depends_on: Others | None = None,
    version: Version = None,
) -> Json:
    """Change the words, the priority or the dependencies of an epic's task; one that would close a circle is refused."""
    changes = {"title": title, "description": description, "priority": priority}
    task = tasks.edit(
        work,
        number,
        version=version,
        add=add_depends_on or (),
        remove=remove_depends_on or (),
        **{name: value for name, value in changes.items() if value is not None},
    )
    return spell_task(task)


@toolset.tool("task_delete", destructive=True)
def delete(work: Work, number: Number) -> Json:
    """Take a task off its board; it can be restored for 30 days."""
    return spell_task(boards.delete(work, number))


@toolset.tool("task_restore", idempotent=True)
def restore(work: Work, number: Number) -> Json:
    """Put a deleted task back."""
    return spell_task(boards.restore(work, number))


@toolset.tool("epic_create")
def epic_create(work: Work, title: Title, description: Description = "") -> Json:
    """Create an epic, in planning."""
    return _epic(work, epics.create(work, title, description, None, None))


@toolset.tool("epic_move", idempotent=True)
def epic_move(work: Work, number: EpicNumber, state: EpicStateName) -> Json:
    """Move an epic to another state; it is complete only when none of its tasks is open, and then for good."""
    return _epic(work, epics.move(work, number, EpicState(state)))


def spell_task(task: Task) -> Json:
    """A task as a board shows it."""
    loop = task.kind == BoardKind.LOOP
    return {
        "number": task.number,
        "id": task_id(task.number) if loop else f"task-{task.number}",
        "kind": task.kind,
        "board": task.board,
        "title": task.title,
        "state": task.state.value,
        "priority": task.priority,
        "assignee": task.assignee,
        "waitsFor": task.open_blockers,
        "attempts": task.attempts,
        "version": task.version,
        "createdAt": iso(task.created_at),
        "updatedAt": iso(task.updated_at),
        "completedAt": iso_or_none(task.completed_at),
        "deletedAt": iso_or_none(task.deleted_at),
    }


def _epic(work: Work, epic: Epic) -> Json:
    counts = {state.value: work.tasks.count_up_to(boards.COUNTED, state=state, board=str(epic.id)) for state in State}
    return {
        "number": epic.id,
        "id": f"epic-{epic.id}",
        "title": epic.title,
        "description": epic.description[:2000],
        "state": epic.state.value,
        "moves": [state.value for state in EPIC_MOVES[epic.state]],
        "tasks": {state: count for state, count in counts.items() if count},
        "createdAt": iso(epic.created_at),
        "completedAt": iso_or_none(epic.completed_at),
    }


def _board(kind: str, board: str) -> str:
    """The board's name in the store; what is no epic's number is none."""
    if kind == "epic" and board and not (board.isascii() and board.isdigit() and len(board) < 19):
        return "0"
    return board


def _title(work: Work, kind: str, board: str) -> str:
    if kind == "loop":
        return board
    return work.epics.get(int(_board(kind, board))).title if board else "Tasks without an epic"
