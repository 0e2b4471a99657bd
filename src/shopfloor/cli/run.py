"""shopfloor run, runs, say, pause, resume, stop, tool, template"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, command, opened, show, table, with_settings
from shopfloor.errors import InvalidInput
from shopfloor.runner.options import RunOptions, read_command
from shopfloor.settings import Settings

runs = typer.Typer(help="Runs: list them, and answer what they ask.", invoke_without_command=True)
template = typer.Typer(help="The template of the prompts of a run.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The run's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands of the loop."""
    command(app, "run")(_with_run_options(run))
    app.add_typer(runs, name="runs")
    app.add_typer(template, name="template")
    command(app, "say")(say)
    command(app, "pause")(pause)
    command(app, "resume")(resume)
    command(app, "stop")(stop)
    command(app, "tool", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(tool)


def run(
    settings: Settings,
    spec: Annotated[Path | None, typer.Option("--spec", help="The file that says what to do.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="The run's name; by default that of the file.")] = None,
    resume: Annotated[str | None, typer.Option("--resume", help="Go on with this run.")] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Print JSON lines instead of a live view.")] = False,
    **options: Any,
) -> None:
    """Drive an agent until the work is verified done, the budget is used up, or nothing moves any more.

    Exit codes: 0 done and verified (or ended in good order by SIGTERM), 1 refused, 2 wrong usage, 3 a budget is used
    up, 4 no progress, 5 the agent keeps failing, 6 stopped by a person, 130 interrupted.
    """
    given = {key: value for key, value in options.items() if value is not None and value not in ([], False)}
    raise typer.Exit(_runner().run(settings, given, name=name, spec=spec, resume=resume, headless=headless))


def _with_run_options(run: Callable[..., Any]) -> Callable[..., Any]:
    """The function with an option for each field of RunOptions in the place of **options."""
    signature = inspect.signature(run, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*own, *map(_run_option, RunOptions.model_fields)]
    )
    return run


def _run_option(name: str) -> inspect.Parameter:
    field = RunOptions.model_fields[name]
    kinds: dict[str, Any] = {"verify": list[str], "commit": bool, "iterations": int, "tokens": int, "no_progress": int}
    kind = kinds.get(name, float if name == "cost" else str)
    option = typer.Option(f"--{name.replace('_', '-')}", help=field.description, show_default=False)
    default: Any = False if kind is bool else None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind | None, option]
    )


def _list(settings: Settings, as_json: bool) -> None:
    with opened(settings) as shopfloor:
        rows, asked = _book().listed(shopfloor, 50), _book().pending(shopfloor)
    questions = [
        {"question": each.number, "run": each.run, "text": each.question, "answers": " ".join(each.options) or "a text"}
        for each in asked
    ]
    text = table(rows, "There are no runs yet: shopfloor run --spec SPEC.md --agent 'opencode acp'")
    if questions:
        text += f"\n\n{table(questions, '')}\n\nAnswer: shopfloor runs answer QUESTION ANSWER"
    show({"runs": rows, "questions": questions}, as_json, text)


def _listing(settings: Settings, context: typer.Context, as_json: AsJson = False) -> None:
    """List the runs, the latest first, and what they ask."""
    if context.invoked_subcommand is None:
        _list(settings, as_json)


runs.callback(invoke_without_command=True)(with_settings(_listing))


@command(runs, "answer")
def answer(
    settings: Settings,
    question: Annotated[int, typer.Argument(help="The question's number.")],
    text: Annotated[str, typer.Argument(help="One of its answers, or a text.")],
) -> None:
    """Answer what a run asks: a permission with allow, always or deny; a stuck note with a text."""
    with opened(settings) as shopfloor:
        request = _book().answered(shopfloor, question, text)
    show(None, False, f"Answered {request.run}: {request.answer}")


@command(runs, "accept")
def accept(
    settings: Settings,
    name: Name,
    task: Annotated[str, typer.Argument(help="The task's id.")],
    acceptance: Annotated[str, typer.Argument(help="The command; without one, none is needed any more.")] = "",
) -> None:
    """Set the command that must pass for one task before its run is done."""
    try:
        words = read_command(acceptance) if acceptance.strip() else None
    except ValueError as error:
        raise InvalidInput(f"The command cannot be read: {error}") from None
    with opened(settings) as shopfloor:
        id = _book().accepted(shopfloor, name, task, words)
    show(None, False, f"{id}: {acceptance or 'no command'}")


def say(settings: Settings, name: Name, text: Annotated[str, typer.Argument(help="What to say.")]) -> None:
    """Say something to a run; it stands in the next prompt."""
    with opened(settings) as shopfloor:
        ended = _book().said(shopfloor, name, text).ended_at is not None
    when = f"when it is taken up again: shopfloor run --resume {name}" if ended else "in its next iteration"
    show(None, False, f"{name} reads it {when}")


def pause(settings: Settings, name: Name) -> None:
    """Pause a run after its current iteration."""
    _steer(settings, name, "pause", "pauses after its current iteration")


def resume(settings: Settings, name: Name) -> None:
    """Let a paused run go on. One that ended goes on with: shopfloor run --resume NAME"""
    _steer(settings, name, "go", "goes on")


def stop(settings: Settings, name: Name) -> None:
    """Stop a run now, in good order."""
    _steer(settings, name, "stop", "stops")


def _steer(settings: Settings, name: str, wanted: str, text: str) -> None:
    with opened(settings) as shopfloor:
        _book().steered(shopfloor, name, wanted)
    show(None, False, f"{name} {text}")


def tool(
    settings: Settings,
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="The tool: task-add, task-list, note-add, …")],
    name: Annotated[str | None, typer.Option("--run", help="The run; by default the latest one.")] = None,
) -> None:
    """Call a TOOL of a run with arguments as JSON or as flags (--content TEXT), and print its answer."""
    with opened(settings) as shopfloor:
        known = {each["name"]: each["parameters"] for each in shopfloor.schemas("loop")}
        given = _arguments(known.get(tool, {"properties": {}}), context.args)
        found = shopfloor.answer("loop", tool, given, name, door="cli")
    show(None, False, found.text)
    if found.error is not None:
        raise typer.Exit(1)


def _arguments(schema: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """The arguments of a tool: JSON first, then flags; those of a single item become a list of one."""
    given: Any = {}
    if words and not words[0].startswith("--"):
        given, words = _json(words[0]), words[1:]
    flags = _flags(words)
    properties = schema["properties"]
    lists = [key for key, value in properties.items() if value.get("type") == "array"]
    if lists and isinstance(given, list):
        given = {lists[0]: given}
    if not isinstance(given, dict):
        raise InvalidInput("The arguments are not a JSON object", hint='Quote them: \'{"id": "TAS-1"}\'')
    if lists and flags and not set(flags) <= set(properties):
        return {**given, lists[0]: [_typed(properties[lists[0]]["items"]["properties"], flags)]}
    return given | _typed(properties, flags)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"The arguments are not JSON: {error}", hint='Quote them: \'{"id": "TAS-1"}\'') from None


def _flags(words: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not key:
            raise InvalidInput(f"'{word}' is not a flag", hint="Write --name value")
        if not equals:
            value = next(rest, "")
        flags[key.replace("-", "_")] = value
    return flags


def _typed(properties: dict[str, Any], flags: dict[str, str]) -> dict[str, Any]:
    """Flags are text; where a tool takes a number, one is made of it."""
    return {key: _number(value) if _is_number(properties.get(key)) else value for key, value in flags.items()}


def _is_number(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("number", "integer")


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@template.command("export")
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; by default the standard output.")] = None,
) -> None:
    """Write out the built-in template, to begin one's own with: shopfloor run --template FILE"""
    text = _prompts().load(None)
    if file is None:
        show(None, False, text)
    elif file.exists():
        raise InvalidInput(f"{file} is there already", hint="Choose another name")
    else:
        file.write_text(text, "utf-8")


def _runner() -> ModuleType:
    from shopfloor.runner import running  # noqa: PLC0415 - too much to load for --help

    return running


def _book() -> ModuleType:
    from shopfloor.runner import book  # noqa: PLC0415 - too much to load for --help

    return book


def _prompts() -> ModuleType:
    from shopfloor.runner import prompt  # noqa: PLC0415 - too much to load for --help

    return prompt
