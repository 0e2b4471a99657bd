"""shopfloor crew"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shopfloor.cli.ids import parse_id
from shopfloor.cli.options import AsJson, Follow, call_desk, command, create_app, open_shopfloor, poll_changes
from shopfloor.cli.output import format_count, format_duration, format_table, print_result
from shopfloor.errors import BadSettings
from shopfloor.runner import crew_main
from shopfloor.settings import Settings

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor

MAX_CREWS = 50
_START_HINT = "Start one: shopfloor crew start --spec SPEC.md --agent 'opencode acp' --workers 3"

app = create_app("Have several agents work on an epic, and merge only verified work.")

Name = Annotated[str, typer.Argument(help="Name of the crew.")]
Headless = Annotated[bool, typer.Option("--headless", "--json", help="Print JSON lines instead of text.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=0, max=64, help="Number of workers; a new crew has 1 by default.")
]
Time = Annotated[str | None, typer.Option("--time", help="Time limit of the whole crew: 90s, 30m, 2h.")]
Iterations = Annotated[int | None, typer.Option("--iterations", help="Maximum number of iterations of the crew.")]
Tokens = Annotated[int | None, typer.Option("--tokens", help="Maximum number of tokens of the whole crew.")]
Cost = Annotated[float | None, typer.Option("--cost", help="Maximum cost of the whole crew.")]
WorkerTime = Annotated[str | None, typer.Option("--worker-time", help="Time limit of each worker.")]
WorkerIterations = Annotated[
    int | None, typer.Option("--worker-iterations", help="Maximum number of iterations of each worker.")
]
WorkerTokens = Annotated[int | None, typer.Option("--worker-tokens", help="Maximum number of tokens of each worker.")]
WorkerCost = Annotated[float | None, typer.Option("--worker-cost", help="Maximum cost of each worker.")]
TaskTime = Annotated[str | None, typer.Option("--task-time", help="Time limit of each task.")]
TaskIterations = Annotated[
    int | None, typer.Option("--task-iterations", help="Maximum number of iterations of each task.")
]
TaskTokens = Annotated[int | None, typer.Option("--task-tokens", help="Maximum number of tokens of each task.")]
TaskCost = Annotated[float | None, typer.Option("--task-cost", help="Maximum cost of each task.")]


@command(app, "start")
def start_crew(
    settings: Settings,
    spec: Annotated[Path | None, typer.Option("--spec", help="File with the specification.")] = None,
    epic: Annotated[str | None, typer.Option("--epic", help="An epic that is already planned: epic-3.")] = None,
    file: Annotated[Path | None, typer.Option("--crew", help="File with roles and options: crew.toml.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the crew; by default the file's name.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Command that starts an ACP agent.")] = None,
    workers: Workers = None,
    planner: Annotated[str | None, typer.Option("--planner", help="Agent that plans; by default --agent.")] = None,
    reviewer: Annotated[str | None, typer.Option("--reviewer", help="Agent that reviews before the merge.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model of the workers' sessions, by id or name; default: the agent's.")
    ] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="Mode of the workers' sessions; by default one that asks.")
    ] = None,
    planner_model: Annotated[
        str | None, typer.Option("--planner-model", help="Model of the planner; by default --model for the same agent.")
    ] = None,
    planner_mode: Annotated[str | None, typer.Option("--planner-mode", help="Mode of the planner's sessions.")] = None,
    reviewer_model: Annotated[str | None, typer.Option("--reviewer-model", help="Model of the reviewer.")] = None,
    reviewer_mode: Annotated[
        str | None, typer.Option("--reviewer-mode", help="Mode of the reviewer's sessions.")
    ] = None,
    verify: Annotated[
        list[str] | None, typer.Option("--verify", help="Command that must pass before work is merged.")
    ] = None,
    setup: Annotated[list[str] | None, typer.Option("--setup", help="Command that prepares each worktree.")] = None,
    permissions: Annotated[
        str | None, typer.Option("--permissions", help="Response to permission requests: ask, allow, deny, rules.")
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option("--attempts", help="Maximum number of times that a task is returned or started before it fails."),
    ] = None,
    time: Time = None,
    iterations: Iterations = None,
    tokens: Tokens = None,
    cost: Cost = None,
    worker_time: WorkerTime = None,
    worker_iterations: WorkerIterations = None,
    worker_tokens: WorkerTokens = None,
    worker_cost: WorkerCost = None,
    task_time: TaskTime = None,
    task_iterations: TaskIterations = None,
    task_tokens: TaskTokens = None,
    task_cost: TaskCost = None,
    iteration_time: Annotated[
        str | None, typer.Option("--iteration-time", help="Time limit of one turn of an agent.")
    ] = None,
    question_time: Annotated[
        str | None,
        typer.Option(
            "--question-time", help="How long the crew waits for an answer when no task is ready; then it ends."
        ),
    ] = None,
    grace: Annotated[str | None, typer.Option("--grace", help="How long an agent may take to stop.")] = None,
    approve_plan: Annotated[
        bool | None,
        typer.Option(
            "--approve-plan/--no-approve-plan", help="Wait for a person's approval; the default on a terminal."
        ),
    ] = None,
    auto_merge: Annotated[
        bool | None, typer.Option("--auto-merge/--no-auto-merge", help="Merge into the project's branch at the end.")
    ] = None,
    sandbox: Annotated[
        bool | None, typer.Option("--sandbox/--no-sandbox", help="Run the agents in sandboxes; needs bubblewrap.")
    ] = None,
    sandbox_network: Annotated[
        str | None, typer.Option("--sandbox-network", help="Network of the sandboxes: on or off.")
    ] = None,
    sandbox_write: Annotated[
        list[str] | None, typer.Option("--sandbox-write", help="File or folder that is writable in the sandboxes.")
    ] = None,
    sandbox_hide: Annotated[
        list[str] | None, typer.Option("--sandbox-hide", help="File or folder that is hidden in the sandboxes.")
    ] = None,
    headless: Headless = False,
) -> None:
    """Start a crew and drive it until its epic is done.

    Exit codes are those of `shopfloor run`: 0 done and verified, 3 a budget is used up, 4 tasks failed, 5 the agents
    keep failing, 6 stopped by a person, 7 no task was planned, 8 tasks are blocked.
    """
    if approve_plan is None and spec is not None and sys.stdin.isatty() and sys.stdout.isatty():
        approve_plan = True
    given: dict[str, Any] = {
        "workers": workers,
        "verify": verify or None,
        "setup": setup or None,
        "attempts": attempts,
        "approve_plan": approve_plan,
        "auto_merge": auto_merge,
        "sandbox": sandbox,
        "sandbox_network": sandbox_network,
        "sandbox_write": sandbox_write or None,
        "sandbox_hide": sandbox_hide or None,
        **_budgets("", time, iterations, tokens, cost),
        **_budgets("worker_", worker_time, worker_iterations, worker_tokens, worker_cost),
    }
    worker: dict[str, Any] = {
        "agent": agent,
        "model": model,
        "mode": mode,
        "permissions": permissions,
        **_budgets("", task_time, task_iterations, task_tokens, task_cost),
        "iteration_time": iteration_time,
        "question_time": question_time,
        "grace": grace,
    }
    shared = {"iteration_time": iteration_time, "grace": grace}
    roles: dict[str, dict[str, Any]] = {
        "worker": worker,
        "planner": {
            "agent": planner,
            "model": planner_model,
            "mode": planner_mode,
            "permissions": permissions,
            **shared,
        },
        "reviewer": {"agent": reviewer, "model": reviewer_model, "mode": reviewer_mode, **shared},
    }
    options = crew_main.read_options(
        settings, file, _drop_missing(given), {role: _drop_missing(facts) for role, facts in roles.items()}
    )
    number = None if epic is None else parse_id("epic", epic)
    raise typer.Exit(crew_main.start(settings, options, name=name, spec=spec, epic=number, headless=headless))


@command(app, "resume")
def resume_crew(
    settings: Settings,
    name: Name,
    workers: Workers = None,
    time: Time = None,
    iterations: Iterations = None,
    tokens: Tokens = None,
    cost: Cost = None,
    worker_time: WorkerTime = None,
    worker_iterations: WorkerIterations = None,
    worker_tokens: WorkerTokens = None,
    worker_cost: WorkerCost = None,
    task_time: TaskTime = None,
    task_iterations: TaskIterations = None,
    task_tokens: TaskTokens = None,
    task_cost: TaskCost = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Retry failed tasks, with a full set of attempts.")
    ] = False,
    headless: Headless = False,
) -> None:
    """Continue a crew that is paused, stopped or interrupted.

    Budgets count from the start of the crew: a new one must be larger than what is already used. Task budgets also
    apply to the plan and to each review.
    """
    given = _budgets("", time, iterations, tokens, cost)
    given |= _budgets("worker_", worker_time, worker_iterations, worker_tokens, worker_cost)
    given, of_task = (
        _drop_missing(given),
        _drop_missing(_budgets("", task_time, task_iterations, task_tokens, task_cost)),
    )
    with open_shopfloor(settings) as shopfloor:
        crew = call_desk(shopfloor, "crew_show", crew=name)
        if crew["driven"]:
            if given or of_task or retry_failed:
                hint = f"Stop it first: shopfloor crew stop {name}"
                raise BadSettings(f"The crew '{name}' is running; its budgets cannot be changed now", hint=hint)
            if workers is not None:
                call_desk(shopfloor, "crew_scale", crew=name, workers=workers)
            call_desk(shopfloor, "crew_resume", crew=name)
            print_result({"crew": name, "status": "running"}, headless, f"{name} continues")
            return
    code = crew_main.resume(
        settings, name, given, of_task, workers=workers, retry_failed=retry_failed, headless=headless
    )
    raise typer.Exit(code)


@command(app, "list", read_only=True)
def list_crews(settings: Settings, as_json: AsJson = False) -> None:
    """List the crews, latest first."""
    with open_shopfloor(settings) as shopfloor:
        found = call_desk(shopfloor, "crew_list", limit=MAX_CREWS)["crews"]
    rows = [
        {
            "crew": crew["crew"],
            "state": crew["status"],
            "epic": crew["epicId"],
            "tasks": f"{crew['taskCounts'].get('COMPLETED', 0)}/{sum(crew['taskCounts'].values())}",
            "workers": crew["wantedWorkers"],
            "tokens": crew["tokens"],
            "cost": f"{crew['cost']:.2f}",
            "reason": crew["reason"],
        }
        for crew in found
    ]
    empty = f"No crews yet. {_START_HINT}"
    optional = ("reason", "cost", "tokens", "workers")
    print_result({"crews": found}, as_json, format_table(rows, empty, optional=optional))


@command(app, "status", read_only=True)
def show_status(
    settings: Settings,
    name: Annotated[str | None, typer.Argument(help="Name of the crew; by default the latest.")] = None,
    follow: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Show a crew: its workers, its tasks and its merge queue."""
    with open_shopfloor(settings) as shopfloor:
        name = name or _find_latest(shopfloor)
        for crew in poll_changes(follow, lambda: call_desk(shopfloor, "crew_show", crew=name), _without_times):
            print_result(crew, as_json, _format_crew(crew))
            if crew["endedAt"] is not None:
                return


@command(app, "pause")
def pause_crew(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Pause a crew: each agent ends its turn, and none begins another."""
    _steer(settings, "crew_pause", name, as_json, f"{name} pauses when its agents end their turns")


@command(app, "stop")
def stop_crew(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Stop a crew. Worktrees with uncommitted work stay in place."""
    # Before the stop, whose response does not wait for the agents to end.
    lines = [
        f"{name} stops",
        *(f"Uncommitted work stays in {folder}" for folder in crew_main.list_dirty(settings, name)),
    ]
    _steer(settings, "crew_stop", name, as_json, "\n".join([*lines, f"Continue: shopfloor crew resume {name}"]))


@command(app, "approve")
def approve_plan(
    settings: Settings,
    name: Name,
    reject: Annotated[bool, typer.Option("--reject", help="Reject the plan and stop the crew.")] = False,
    as_json: AsJson = False,
) -> None:
    """Approve the plan of a crew, with the acceptance commands that its tasks propose."""
    with open_shopfloor(settings) as shopfloor:
        crew = call_desk(shopfloor, "crew_approve_plan", crew=name, approve=not reject)
    print_result(crew, as_json, f"{name}: the plan is {'rejected' if reject else 'approved'}")


@command(app, "scale")
def scale_crew(
    settings: Settings,
    name: Name,
    workers: Annotated[int, typer.Argument(min=0, max=64, help="Number of workers.")],
    as_json: AsJson = False,
) -> None:
    """Change the number of workers of a crew."""
    with open_shopfloor(settings) as shopfloor:
        crew = call_desk(shopfloor, "crew_scale", crew=name, workers=workers)
    print_result(crew, as_json, f"{name} has {format_count(workers, 'worker')}")


@command(app, "merge")
def merge_crew(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Merge the verified work of a crew into the branch of the project."""
    with open_shopfloor(settings) as shopfloor:
        merged = call_desk(shopfloor, "crew_merge_branch", crew=name)
    print_result(merged, as_json, crew_main.describe_merge(merged))


def _find_latest(shopfloor: Shopfloor) -> str:
    crews = call_desk(shopfloor, "crew_list", limit=1)["crews"]
    if not crews:
        raise BadSettings("No crews yet", hint=_START_HINT)
    return str(crews[0]["crew"])


def _steer(settings: Settings, tool: str, name: str, as_json: bool, text: str) -> None:
    with open_shopfloor(settings) as shopfloor:
        crew = call_desk(shopfloor, tool, crew=name)
    print_result(crew, as_json, text)


def _budgets(
    prefix: str, time: str | None, iterations: int | None, tokens: int | None, cost: float | None
) -> dict[str, Any]:
    given = {"time": time, "iterations": iterations, "tokens": tokens, "cost": cost}
    return {f"{prefix}{name}": value for name, value in given.items()}


def _drop_missing(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _without_times(crew: dict[str, Any]) -> dict[str, Any]:
    """Return a crew without the fields that change every second: they are no reason to print it again."""
    workers = [{**worker, "elapsed": None} for worker in crew["workers"]]
    return {**crew, "elapsed": None, "workers": workers}


def _format_amounts(amounts: dict[str, Any]) -> str:
    """Format what a crew has used, or has left."""
    texts: dict[str, Callable[[Any], str]] = {
        "elapsed": format_duration,
        "time": format_duration,
        "cost": lambda cost: f"cost {cost:.2f}",
    }
    return ", ".join(texts[name](amount) if name in texts else f"{amount} {name}" for name, amount in amounts.items())


def _format_crew(crew: dict[str, Any]) -> str:
    """Format a crew for a terminal of 80 columns."""
    states = sorted(crew["taskCounts"].items())
    counts = ", ".join(f"{count} {state.lower().replace('_', ' ')}" for state, count in states)
    head = [f"{crew['crew']}: {crew['status']}, {crew['epicId']}, {counts or 'no tasks'}", f"branch {crew['branch']}"]
    head.append(f"used: {_format_amounts({name: crew[name] for name in ('elapsed', 'tokens', 'cost')})}")
    if crew["remaining"]:
        head.append(f"left: {_format_amounts(crew['remaining'])}")
    if crew["phase"] == "approval" and crew["driven"]:
        head.append(f"the plan waits for a person: shopfloor crew approve {crew['crew']} [--reject]")
    if crew["status"] == "waiting":
        head += [f"waiting for an answer: shopfloor inbox read {mail}" for mail in crew["questions"]]
    if crew["reason"]:
        reason, _, how = crew["reason"].partition(". Continue: ")
        head += [reason, *([f"Continue: {how}"] if how else [])]
    elif crew["status"] == "interrupted":
        head.append(f"No process drives it. Continue: shopfloor crew resume {crew['crew']}")
    head += [f"{worker['agentId']} waits {worker['waiting']}" for worker in crew["workers"] if worker["waiting"]]
    workers = [
        {
            "worker": worker["agentId"],
            "state": worker["status"],
            "task": worker["task"],
            "turn": None if worker["iteration"] is None else worker["iteration"] + 1,
            "seconds": worker["elapsed"] if worker["run"] else None,
            "tokens": worker["tokens"],
            "cost": f"{worker['cost']:.2f}",
        }
        for worker in crew["workers"]
    ]
    merges = {merge["task"]: merge["state"] for merge in crew["merges"]}
    tasks = [
        {
            "task": task["id"],
            "state": task["state"].lower().replace("_", " "),
            "merge": merges.get(task["id"]),
            "worker": task["assigneeId"],
            "title": task["title"],
        }
        for task in crew["tasks"]
    ]
    parts = [
        "\n".join(head),
        format_table(workers, "No agent has started yet.", optional=("cost", "tokens", "seconds")),
    ]
    parts.append(format_table(tasks, "There are no tasks yet.", optional=("worker",)))
    return "\n\n".join(parts)
