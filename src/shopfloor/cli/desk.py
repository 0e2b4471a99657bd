"""shopfloor status, log, link, desk, watch: the desk in a terminal."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from shopfloor.cli.options import EVERY, AsJson, Follow, again, ask, command, doors, opened, printable, show, table
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

Many = Annotated[int, typer.Option("--limit", "-n", help="How many rows.", min=1, max=200)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "status")(status)
    command(app, "log")(log)
    command(app, "link")(link)
    command(app, "desk")(desk)
    command(app, "watch")(watch)


def status(settings: Settings, as_json: AsJson = False, follow: Follow = False) -> None:
    """Show who works on what, what is stuck, and what waits for a person."""
    with opened(settings) as shopfloor:
        for seen in again(follow, lambda: ask(shopfloor, "floor_overview")):
            show(seen, as_json, _status(seen))


def log(
    settings: Settings,
    reference: Annotated[str | None, typer.Argument(help="One call, by its reference.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only of this agent, or user:NAME.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only of this tool.")] = None,
    outcome: Annotated[str | None, typer.Option(help="ok, error, decision, open, limited, or a code.")] = None,
    task: Annotated[int | None, typer.Option(help="Only about this task.")] = None,
    since: Annotated[str | None, typer.Option(help="Not before this time.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.")] = None,
    text: Annotated[str | None, typer.Option(help="Anywhere in a call.")] = None,
    limit: Many = 30,
    follow: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Show the decision log, newest last; with a REFERENCE, one call with all that followed."""
    sought = {"agent": agent, "tool": tool, "outcome": outcome, "task": task, "since": since, "until": until,
              "text": text, "limit": limit}  # fmt: skip
    with opened(settings) as shopfloor:
        if reference is not None:
            call = ask(shopfloor, "log_call", reference=reference)
            show(call, as_json, _opened_call(call))
        else:
            _log(shopfloor, sought, follow, as_json)


def link(settings: Settings, user: Annotated[str | None, typer.Option("--user", help="For this user.")] = None) -> None:
    """Print a one-time link to the pages: for the operator, or for a user."""
    key = doors().link(settings, user)
    with opened(settings) as shopfloor:
        seen = ask(shopfloor, "floor_overview")
    served = next((each["url"] for each in seen["processes"] if each["kind"] == "serve" and each["url"]), None)
    print(f"{served or f'http://{settings.host}:{settings.port}'}/enter?key={key}")


def desk(
    settings: Settings,
    user: Annotated[str, typer.Argument(help="The user.")],
    right: Annotated[str, typer.Argument(help="reader looks, helper also answers and moves, none does neither.")],
    as_json: AsJson = False,
) -> None:
    """Give a user a place at the desk, or take it away."""
    if right not in ("none", "reader", "helper"):
        raise InvalidInput(f"'{right}' is not a right; write none, reader or helper", field="right")
    with opened(settings) as shopfloor:
        answer = ask(shopfloor, "key_seat", name=user, desk=right)
    show(answer, as_json, f"{user} has the right '{right}' at the desk")


def watch(settings: Settings) -> None:
    """Watch floor, inbox and loops full-screen; answer, pause and send messages by key."""
    from shopfloor.cli import screen  # noqa: PLC0415 - a terminal program that no other command needs

    with opened(settings) as shopfloor:
        screen.Watch(lambda tool, given: ask(shopfloor, tool, **given)).run()


def _log(shopfloor: Any, sought: dict[str, Any], follow: bool, as_json: bool) -> None:
    calls = ask(shopfloor, "log_search", **sought)["calls"][::-1]
    if not calls and not follow:
        show([], as_json, "No call fits. Every call is logged: make one, or run shopfloor demo.")
    for call in calls:
        _line(call, as_json)
    newest = calls[-1]["id"] if calls else 0
    while follow:
        try:
            time.sleep(EVERY)
        except KeyboardInterrupt:
            return
        fresh = _since(shopfloor, sought, newest)
        for call in fresh[::-1]:
            _line(call, as_json)
            newest = call["id"]


def _since(shopfloor: Any, sought: dict[str, Any], newest: int) -> list[dict[str, Any]]:
    """What has come since that row, however much it is; newest first."""
    fresh: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = ask(shopfloor, "log_search", **{**sought, "limit": 200, "cursor": cursor})
        fresh += [call for call in page["calls"] if call["id"] > newest]
        cursor = page.get("nextCursor")
        if cursor is None or page["searchedTo"] <= newest:
            return fresh


def _line(call: dict[str, Any], as_json: bool) -> None:
    took = "" if call["ms"] is None else f"{call['ms']:.1f} ms"
    who = call["agent"].partition(":")[2]
    text = f"{call['at'][:19].replace('T', ' ')}  {who:<12.12}  {call['tool']:<28.28}  {call['outcome']:<17.17}  {took:>10}  {call['reference']}"
    note = f"  {printable(call['summary'])[:80]}" if call["kind"] in ("manual", "error") else ""
    print(json.dumps(call, ensure_ascii=False) if as_json else text + note, flush=True)


def _status(seen: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in seen["counts"].items() if count) or "no agents yet"
    lines = [
        f"{seen['waiting']} wait for you · {counts} · {sum(m['calls'] for m in seen['callsPerMinute'][-5:])} calls in 5 min"
    ]
    agents = [
        {
            "agent": each["id"],
            "state": each["state"],
            "works on": f"task-{each['task']} {each['taskTitle'] or ''}"[:40] if each["task"] else "-",
            "last call": each["lastCall"]["tool"].removeprefix("mcp__") if each["lastCall"] else "-",
            "seen": each["lastActiveAt"][11:19],
        }
        for each in seen["agents"]
    ]
    lines += ["", table(agents, "No agent has come yet: shopfloor agent add NAME --type WORKER")]
    if seen["runs"]:
        rows = [
            {"loop": run["run"], "state": run["state"], "iteration": run["iteration"], "elapsed": f"{run['elapsed']} s"}
            for run in seen["runs"]
        ]
        lines += ["", table(rows, "")]
    if seen["deadLetters"]:
        lines += ["", f"{seen['deadLetters']} dead letters: see the page Metrics"]
    return "\n".join(lines)


def _opened_call(call: dict[str, Any]) -> str:
    lines = [f"{call['tool']}  {call['outcome']}  {call['reference']}",
             f"by {call['agent']}" + (f" (made by {call['by']})" if call["by"] != call["agent"] else ""),
             f"began {call['startedAt']}, took {call['ms']} ms, {call['retries']} retries", ""]  # fmt: skip
    for name in ("input", "answer"):
        lines += [f"{name}:", _plain_lines(json.dumps(call[name], indent=2, ensure_ascii=False)), ""]
    if call["stack"]:
        lines += ["inside:", _plain_lines(call["stack"]), ""]
    lines += [f"followed: {event['name']} {json.dumps(event['data'], ensure_ascii=False)}" for event in call["events"]]
    return "\n".join(lines)


def _plain_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
