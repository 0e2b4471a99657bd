"""shopfloor runs, say, pause, resume, stop"""

from __future__ import annotations

from typing import Annotated

import typer

from shopfloor.cli.options import AsJson, call_desk, command, create_app, default_command, open_shopfloor
from shopfloor.cli.output import format_first_line, format_iterations, format_table, print_result
from shopfloor.cli.transcripts import follow_transcript, print_transcript
from shopfloor.errors import InvalidInput
from shopfloor.runner.options import parse_command
from shopfloor.settings import Settings

MAX_RUNS = 50

runs = create_app("List runs and their requests, and answer them.", invoke_without_command=True)
app = create_app()

Name = Annotated[str, typer.Argument(help="Name of the run.")]


@default_command(runs)
def list_runs(
    settings: Settings,
    everything: Annotated[bool, typer.Option("--all", help="Include the runs of crews.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs, latest first, and their requests."""
    with open_shopfloor(settings) as shopfloor:
        latest = call_desk(shopfloor, "run_list", limit=MAX_RUNS, includeCrews=everything)["runs"]
        requests = call_desk(shopfloor, "inbox_list", limit=1)["requests"]
    rows = [
        {
            "run": run["run"],
            "state": run["status"],
            "iteration": run["iteration"],
            "tasks": f"{run['tasks']['completed']}/{run['tasks']['total']}",
            "tokens": run["tokens"],
            "cost": round(run["cost"], 4),
            "reason": run["reason"] or run["waiting"],
        }
        for run in latest
    ]
    questions = [
        {
            "question": request["request"],
            "run": request["run"],
            "text": request["question"] if as_json else format_first_line(request["question"]),
            "answers": " ".join(request["options"]) or "a text",
        }
        for request in requests
    ]
    optional = ("reason", "tasks", "cost", "tokens", "iterations")
    shown = [
        {
            "run": row["run"],
            "state": row["state"],
            "iterations": format_iterations(run),
            "tasks": row["tasks"] if run["tasks"]["total"] else None,
            "tokens": row["tokens"] or None,
            "cost": row["cost"] or None,
            "reason": row["reason"],
        }
        for row, run in zip(rows, latest, strict=True)
    ]
    empty = "No runs yet. Start one: shopfloor run --spec SPEC.md --agent 'opencode acp'"
    if not everything:
        empty += "\nInclude those of crews: shopfloor runs --all"
    text = format_table(shown, empty, optional=optional)
    if questions:
        table = format_table(questions, "", optional=("run",))
        number = questions[0]["question"]
        text += f"\n\n{table}\n\nRead:   shopfloor inbox read request-{number}"
        text += f"\nAnswer: shopfloor runs answer {number} TEXT"
    print_result({"runs": rows, "questions": questions}, as_json, text)


@command(runs, "answer")
def answer_request(
    settings: Settings,
    question: Annotated[int, typer.Argument(help="Number of the request.")],
    text: Annotated[str, typer.Argument(help="One of its options, or a text.")],
    as_json: AsJson = False,
) -> None:
    """Answer a run's request: a permission with allow, always or deny, a stuck note with text."""
    with open_shopfloor(settings) as shopfloor:
        request = call_desk(shopfloor, "inbox_decide", request=question, answer=text)
    print_result(request, as_json, f"Answered {request['run']}: {request['answer']}")


@command(runs, "accept")
def set_acceptance(
    settings: Settings,
    name: Name,
    task: Annotated[str, typer.Argument(help="Id of the task.")],
    acceptance: Annotated[str, typer.Argument(help="Acceptance command; without one, it is removed.")] = "",
    as_json: AsJson = False,
) -> None:
    """Set the acceptance command of a task."""
    try:
        words = list(parse_command(acceptance)) if acceptance.strip() else []
    except ValueError as error:
        raise InvalidInput(f"The acceptance command cannot be parsed: {error}") from None
    with open_shopfloor(settings) as shopfloor:
        changed = call_desk(shopfloor, "run_set_acceptance", run=name, task=task, command=words)
    print_result(changed, as_json, f"{changed['task']}: {acceptance or 'no command'}")


@command(runs, "transcript", read_only=True)
def show_transcript(
    settings: Settings,
    name: Name,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new entries until no process drives the run.")
    ] = False,
    iteration: Annotated[int | None, typer.Option("--iteration", min=0, help="Only this iteration.")] = None,
    query: Annotated[str | None, typer.Option("--search", help="Only entries that contain this text.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Number of entries, from the end.")] = 100,
    full: Annotated[bool, typer.Option("--full", help="Show prompts, arguments and results in full.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the agent of a run said, thought, planned, called and asked."""
    if follow and (iteration is not None or query is not None):
        raise InvalidInput("--follow shows everything that is new", hint="Leave out --iteration and --search")
    with open_shopfloor(settings) as shopfloor:
        call_desk(shopfloor, "run_show", run=name)
        if follow:
            follow_transcript(shopfloor, name, limit=limit, full=full, as_json=as_json)
        else:
            print_transcript(shopfloor, name, iteration=iteration, query=query, limit=limit, full=full, as_json=as_json)


@command(app, "say")
def say(
    settings: Settings,
    name: Name,
    text: Annotated[str, typer.Argument(help="Text for the agent.")],
    as_json: AsJson = False,
) -> None:
    """Send a message to a run. It is included in the next prompt."""
    with open_shopfloor(settings) as shopfloor:
        run = call_desk(shopfloor, "run_say", run=name, message=text)
    when = f"after it is resumed: shopfloor run --resume {name}" if run["endedAt"] else "in its next iteration"
    print_result(run, as_json, f"{name} reads it {when}")


@command(app, "pause")
def pause_run(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Pause a run after its current iteration."""
    _steer(settings, "run_pause", name, as_json, f"{name} pauses after its current iteration")


@command(app, "resume")
def resume_run(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Resume a paused run. To continue one that has ended, use shopfloor run --resume NAME."""
    _steer(settings, "run_resume", name, as_json, f"{name} continues")


@command(app, "stop")
def stop_run(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Stop a run cleanly: cancel the turn of its agent and end it."""
    _steer(settings, "run_stop", name, as_json, f"{name} stops")


def _steer(settings: Settings, tool: str, name: str, as_json: bool, text: str) -> None:
    with open_shopfloor(settings) as shopfloor:
        run = call_desk(shopfloor, tool, run=name)
    print_result(run, as_json, text)
