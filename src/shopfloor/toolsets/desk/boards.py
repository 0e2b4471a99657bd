"""Tools for boards, epics and tasks: list, show, create, change and move them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.epics import Epic, EpicState
from shopfloor.domain.pagination import DEFAULT_PAGE_ROWS, fetch_size, format_cursor, parse_number_cursor, to_page
from shopfloor.domain.runs import format_task_id
from shopfloor.domain.tasks import DEFAULT_PRIORITY, BoardKind, State, Task
from shopfloor.domain.times import DAY, format_iso, format_iso_or_none
from shopfloor.domain.usage import UsageKind
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.toolsets.desk.crews import format_crew, format_merge
from shopfloor.toolsets.desk.log import format_entry
from shopfloor.toolsets.desk.work import format_usage
from shopfloor.usecases import boards, claims, epics, tasks, usage
from shopfloor.usecases.boards import KEPT_DAYS

COLUMN_ROWS = 30
MAX_CREWS = 3
OPEN_STATES = tuple(state for state in State if state not in (State.COMPLETED, State.CANCELLED))

Kind = Annotated[Literal["epic", "loop"], Field(description="Kind of the board: epic (default for one task) or loop")]
Board = Annotated[
    str, Field(description="Number of the epic (empty: tasks without an epic), or name of the run", max_length=64)
]
Number = Annotated[int, Field(description="Number of the task", ge=1, le=2**62)]
Others = Annotated[list[Number], Field(description="Numbers of tasks, at most 100", max_length=100)]
EpicNumber = Annotated[int, Field(description="Number of the epic", ge=1, le=2**62)]
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
    str | None,
    Field(
        description="Show only tasks with this text in number, title or assignee; at most 200 characters",
        max_length=200,
    ),
]
Title = Annotated[str, Field(description="1-500 characters", min_length=1, max_length=500)]
Description = Annotated[str, Field(description="Markdown, at most 65536 characters", max_length=65536)]
AgentId = Annotated[str, Field(description="Name of the agent", min_length=1, max_length=64)]
Version = Annotated[int | None, Field(description="Reject the change if the task is no longer at this version", ge=1)]


@toolset.tool("board_epics", read_only=True)
def list_epics(uow: UnitOfWork, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the epics, newest first, with the number of tasks in each state."""
    rows = uow.epics.list_page(limit=fetch_size(limit), before=parse_number_cursor("epics", cursor))
    return to_page("epics", rows, limit, lambda epic: _format_epic(uow, epic), lambda epic: epic.id)


@toolset.tool("board_show", read_only=True)
def show_board(
    uow: UnitOfWork,
    kind: Kind,
    board: Board = "",
    state: StateName | None = None,
    text: Text = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """Show one board: its tasks by state, and the moves allowed from each state."""
    found = boards.list_columns(
        uow,
        BoardKind(kind),
        _parse_board(kind, board),
        limit=limit or (DEFAULT_PAGE_ROWS if state else COLUMN_ROWS),
        state=None if state is None else State(state),
        after=parse_number_cursor("board", cursor),
        text=text or None,
    )
    return {
        "kind": kind,
        "board": board,
        "title": _find_title(uow, kind, board),
        "epic": _format_epic(uow, uow.epics.get(int(board))) if kind == "epic" and board else None,
        "crews": [format_crew(uow, crew) for crew in uow.crews.list_of_epic(int(board), MAX_CREWS)]
        if kind == "epic" and board
        else [],
        "columns": [
            {
                "state": column.state.value,
                "count": column.count,
                "counted": column.count < boards.MAX_COUNT,
                "searched": column.searched,
                "tasks": [_format_card(uow, task) for task in column.tasks],
                **({} if column.more_after is None else {"nextCursor": format_cursor("board", column.more_after)}),
            }
            for column in found
        ],
        "assignees": boards.list_assignees(uow) if kind == "epic" else [],
        "deleted": [format_task(task) for task in uow.tasks.list_deleted(uow.now - KEPT_DAYS * DAY, COLUMN_ROWS)]
        if kind == "epic" and state is None
        else [],
    }


@toolset.tool("board_graph", read_only=True)
def show_graph(uow: UnitOfWork, kind: Kind, board: Board = "") -> Json:
    """Show the tasks of a board with the dependencies among them; at most 150 tasks, open ones first."""
    graph = boards.load_graph(uow, BoardKind(kind), _parse_board(kind, board))
    return {
        "tasks": [format_task(task) for task in graph.tasks],
        "dependencies": [{"task": task, "blocker": blocker} for task, blocker in graph.dependencies],
        "complete": graph.is_complete,
    }


@toolset.tool("epic_progress", read_only=True)
def show_progress(uow: UnitOfWork, number: EpicNumber) -> Json:
    """Show the progress of an epic: for each day, hour or minute, its tasks and how many of them were completed."""
    points = boards.load_progress(uow, number)
    return {
        "points": [{"at": format_iso(each.at), "tasks": each.tasks, "completed": each.completed} for each in points]
    }


@toolset.tool("task_list", read_only=True)
def list_tasks(
    uow: UnitOfWork,
    state: StateName | None = None,
    epic: EpicNumber | None = None,
    assignee: AgentId | None = None,
    include_closed: Annotated[bool, Field(description="Include completed and cancelled tasks; default false")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """List the tasks of all epics by number: the open ones, or those in one state."""
    states = tuple(State) if include_closed else OPEN_STATES
    rows = boards.list_tasks(
        uow,
        limit=fetch_size(limit),
        after=parse_number_cursor("tasks", cursor),
        states=states if state is None else (State(state),),
        epic=epic,
        assignee=assignee,
    )
    return to_page("tasks", rows, limit, lambda task: _format_card(uow, task), lambda task: task.number)


@toolset.tool("task_show", read_only=True)
def show_task(uow: UnitOfWork, number: Number, kind: Kind = "epic", board: Board = "") -> Json:
    """Show one task with its dependencies, dependents, comments, attempts and history."""
    found = boards.get_task_details(uow, BoardKind(kind), _parse_board(kind, board), number)
    task = found.task
    is_held = task.state in claims.HELD_STATES and task.assignee is not None
    lease = claims.get_lease_expiry(uow, task) if is_held else None
    merge = uow.merges.find(number) if task.kind == BoardKind.EPIC else None
    return {
        **_format_card(uow, task),
        "description": task.description or "",
        "worktreePath": task.worktree_path,
        "acceptance": task.acceptance,
        "merge": None if merge is None else {"crew": merge.crew, **format_merge(merge)},
        "leaseExpiresAt": format_iso_or_none(lease),
        "leaseExpired": lease is not None and lease < uow.now,
        "usage": format_usage(usage.sum_usage(uow, UsageKind.TASK, str(number))),
        "boardTitle": _find_title(uow, kind, task.board),
        "blockers": [format_task(each) for each in found.blockers],
        "dependents": [format_task(each) for each in found.dependents],
        "assignees": boards.list_assignees(uow) if claims.can_assign(task) else [],
        "comments": [
            {
                "id": comment.id,
                "author": comment.author,
                "body": comment.body,
                "createdAt": format_iso(comment.created_at),
            }
            for comment in found.comments
        ],
        "history": [{**format_entry(entry), "input": found.inputs.get(entry.reference)} for entry in found.history],
    }


@toolset.tool("task_move")
def move_task(
    uow: UnitOfWork,
    number: Number,
    state: StateName,
    kind: Kind = "epic",
    board: Board = "",
    comment: Comment | None = None,
) -> Json:
    """Move a task to another state. The error for an illegal move lists the allowed ones."""
    return format_task(boards.move_task(uow, BoardKind(kind), _parse_board(kind, board), number, State(state), comment))


@toolset.tool("tasks_change", idempotent=True)
def change_tasks(
    uow: UnitOfWork,
    numbers: Annotated[Others, Field(min_length=1)],
    state: StateName | None = None,
    assignee: AgentId | None = None,
    priority: Priority | None = None,
) -> Json:
    """Move, assign or prioritize up to 100 tasks at once. If one change is rejected, no task changes."""
    if state is None and assignee is None and priority is None:
        raise InvalidInput("Name a state, an assignee or a priority", field="state")
    changed = boards.change_tasks(
        uow, numbers, state=None if state is None else State(state), assignee=assignee, priority=priority
    )
    return {"tasks": [format_task(task) for task in changed]}


@toolset.tool("task_complete", idempotent=True)
def complete_task(uow: UnitOfWork, number: Number, comment: Comment | None = None) -> Json:
    """Complete a task from any open state. Its holder is notified by mail."""
    return format_task(claims.complete_task(uow, number, comment))


@toolset.tool("task_assign")
def assign_task(uow: UnitOfWork, number: Number, agent_id: AgentId) -> Json:
    """Assign a task to an agent, which is notified by mail."""
    return format_task(claims.assign_task(uow, number, agent_id))


@toolset.tool("task_comment")
def comment_on_task(uow: UnitOfWork, number: Number, body: Comment) -> Json:
    """Comment on a task."""
    task = uow.tasks.get(number)
    written = tasks.add_comment(uow, task, body)
    tasks.emit_change(uow, task)
    return {"comment": written}


@toolset.tool("task_create")
def create_task(
    uow: UnitOfWork,
    title: Title,
    epic: EpicNumber | None = None,
    description: Description = "",
    priority: Priority = DEFAULT_PRIORITY,
    depends_on: Others | None = None,
    assignee: AgentId | None = None,
) -> Json:
    """Create a task, in an epic or in none, and assign it if an agent is named."""
    task = tasks.create_task(
        uow, title=title, description=description, epic=epic, priority=priority, depends_on=depends_on or ()
    )
    return format_task(task if assignee is None else claims.assign_task(uow, task.number, assignee))


@toolset.tool("task_edit", idempotent=True)
def edit_task(
    uow: UnitOfWork,
    number: Number,
    title: Title | None = None,
    description: Description | None = None,
    priority: Priority | None = None,
    add_depends_on: Others | None = None,
    remove_depends_on: Others | None = None,
    version: Version = None,
) -> Json:
    """Change title, description, priority or dependencies of a task. A dependency that closes a cycle is rejected."""
    changes = {"title": title, "description": description, "priority": priority}
    task = tasks.edit_task(
        uow,
        number,
        version=version,
        add=add_depends_on or (),
        remove=remove_depends_on or (),
        **{name: value for name, value in changes.items() if value is not None},
    )
    return format_task(task)


@toolset.tool("task_delete", destructive=True)
def delete_task(uow: UnitOfWork, number: Number) -> Json:
    """Delete a task. It can be restored for 30 days."""
    return format_task(boards.delete_task(uow, number))


@toolset.tool("task_restore", idempotent=True)
def restore_task(uow: UnitOfWork, number: Number) -> Json:
    """Restore a deleted task."""
    return format_task(boards.restore_task(uow, number))


@toolset.tool("epic_create")
def create_epic(uow: UnitOfWork, title: Title, description: Description = "") -> Json:
    """Create an epic, in planning."""
    return _format_epic(uow, epics.create_epic(uow, title, description, None, None))


@toolset.tool("epic_move", idempotent=True)
def move_epic(uow: UnitOfWork, number: EpicNumber, state: EpicStateName) -> Json:
    """Move an epic to another state. It can be completed, permanently, only when none of its tasks is open."""
    return _format_epic(uow, epics.move_epic(uow, number, EpicState(state)))


def format_task(task: Task) -> Json:
    """Return a task as boards show it."""
    loop = task.kind == BoardKind.LOOP
    return {
        "number": task.number,
        "id": format_task_id(task.number) if loop else f"task-{task.number}",
        "kind": task.kind,
        "board": task.board,
        "title": task.title,
        "state": task.state.value,
        "priority": task.priority,
        "assignee": task.assignee,
        "waitsFor": task.open_blockers,
        "attempts": task.attempts,
        "version": task.version,
        "createdAt": format_iso(task.created_at),
        "updatedAt": format_iso(task.updated_at),
        "completedAt": format_iso_or_none(task.completed_at),
        "deletedAt": format_iso_or_none(task.deleted_at),
        "heldSince": format_iso_or_none(task.held_at),
        "commentCount": task.comments,
        "branchName": task.branch_name,
        "prUrl": task.pr_url,
    }


def _format_card(uow: UnitOfWork, task: Task) -> Json:
    """Return a task with the actions that a person can take now, without those that would be rejected."""
    is_of_epic = task.kind == BoardKind.EPIC
    return {
        **format_task(task),
        "moves": [state.value for state in boards.list_moves(uow, task)],
        "canComplete": is_of_epic and claims.can_complete(uow, task),
        "canAssign": is_of_epic and claims.can_assign(task),
    }


def _format_epic(uow: UnitOfWork, epic: Epic) -> Json:
    counts = {state.value: uow.tasks.count_up_to(boards.MAX_COUNT, state=state, board=str(epic.id)) for state in State}
    return {
        "number": epic.id,
        "id": f"epic-{epic.id}",
        "title": epic.title,
        "description": epic.description[:2000],
        "state": epic.state.value,
        "moves": [state.value for state in epics.list_moves(uow, epic)],
        "isFinished": epic.is_open and bool(sum(counts.values())) and epics.can_complete(uow, epic),
        "tasks": {state: count for state, count in counts.items() if count},
        "createdAt": format_iso(epic.created_at),
        "completedAt": format_iso_or_none(epic.completed_at),
    }


def _parse_board(kind: str, board: str) -> str:
    """Return the name of the board in the store. Anything but a number becomes '0', which no epic has."""
    if kind == "epic" and board and not (board.isascii() and board.isdigit() and len(board) < 19):
        return "0"
    return board


def _find_title(uow: UnitOfWork, kind: str, board: str) -> str:
    if kind == "loop":
        return board
    return uow.epics.get(int(_parse_board(kind, board))).title if board else "Tasks without an epic"
