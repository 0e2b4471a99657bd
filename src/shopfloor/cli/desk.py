"""shopfloor status, log, link, desk"""

from __future__ import annotations

import re
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shopfloor.cli.epics import format_progress
from shopfloor.cli.options import (
    POLL_SECONDS,
    AsJson,
    Follow,
    call_desk,
    command,
    create_app,
    open_shopfloor,
    poll_changes,
)
from shopfloor.cli.output import (
    format_age,
    format_count,
    format_duration,
    format_iterations,
    format_milliseconds,
    format_table,
    paint,
    paint_state,
    print_result,
    shorten,
    shorten_line,
    to_printable,
    to_printable_lines,
)
from shopfloor.domain.text import format_json
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor

ROLES = ("none", "viewer", "editor")

Many = Annotated[int, typer.Option("--limit", "-n", help="Number of rows.", min=1, max=200)]


# On a narrow terminal, the task says enough.
_EPIC_PART = re.compile(r"(?<=\d) · epic-\d+")

app = create_app()


@command(app, "status", read_only=True)
def show_status(settings: Settings, as_json: AsJson = False, follow: Follow = False) -> None:
    """Show agents, runs, crews and what waits for a person, problems first."""
    with open_shopfloor(settings) as shopfloor:
        for seen in poll_changes(follow, lambda: call_desk(shopfloor, "floor_overview")):
            print_result(seen, as_json, _format_status(seen))


# Without a database there is nothing to verify, and an empty log would pass.
@command(app, "log", read_only=True, existing=lambda given: given["reference"] == "verify")
def show_log(
    settings: Settings,
    reference: Annotated[
        str | None,
        typer.Argument(help="Reference of a call, such as ref-1a2b3c4d; or verify, to check the seals of the log."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Show only calls by this agent, or by user:NAME or run:NAME.")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Show only calls to this tool.")] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Show only ok, error, decision, open, limited, or an error code.")
    ] = None,
    task: Annotated[int | None, typer.Option(help="Show only calls about this task.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Show only calls since this time, such as 1h, yesterday or 2026-03-01.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Show only calls before this time, such as 10m or 09:30.")] = None,
    text: Annotated[str | None, typer.Option(help="Show only calls that contain this text.")] = None,
    anchor: Annotated[
        str | None, typer.Option(help="With verify: NUMBER:DIGEST of a seal that you have kept elsewhere.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include calls from commands, pages and runners.")] = False,
    limit: Many = 30,
    follow: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Show agents' calls and decisions, newest last.

    With a reference, show one call with input, response, duration, retries and consequences. With verify, check the
    seals, list rows that were changed, removed or added, and exit with 1 if there are any. --json prints one line per
    call.
    """
    criteria: dict[str, Any] = {
        "agent": agent,
        "tool": tool,
        "outcome": outcome,
        "task": task,
        "since": since,
        "until": until,
        "text": text,
        "desk": everything,
        "limit": limit,
    }
    with open_shopfloor(settings) as shopfloor:
        if reference == "verify":
            _verify_log(shopfloor, anchor, as_json)
            return
        if reference is not None:
            call = call_desk(shopfloor, "log_call", reference=reference)
            print_result(call, as_json, _format_call(call))
            return
        calls = call_desk(shopfloor, "log_search", **criteria)["calls"][::-1]
        if as_json:
            for call in calls:
                print(format_json(call), flush=True)
        elif calls:
            print(_format_entries(calls), flush=True)
        elif not follow:
            print(_describe_no_calls(everything))
        if follow:
            _follow_log(shopfloor, criteria, calls[-1]["id"] if calls else 0, as_json)


@command(app, "link")
def create_link(
    settings: Settings,
    user: Annotated[str | None, typer.Option("--user", help="User to sign in; by default the operator.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a sign-in link to the pages. It can be used once, within 10 minutes."""
    with open_shopfloor(settings) as shopfloor:
        created = call_desk(shopfloor, "link_create", user=user)
    server = created["serverUrl"] or f"http://{settings.host}:{settings.port}"
    url = f"{server}/enter?token={created['token']}"
    print_result({"url": url, "expiresAt": created["expiresAt"]}, as_json, url)
    if created["serverUrl"] is None:
        # On standard error: scripts open the link from standard output.
        print("No server of this project is running. Start it first: shopfloor serve", file=sys.stderr)


@command(app, "desk")
def set_desk_role(
    settings: Settings,
    user: Annotated[str, typer.Argument(help="Name of the user.")],
    role: Annotated[str, typer.Argument(help="viewer (read only), editor (may also answer and move tasks) or none.")],
    as_json: AsJson = False,
) -> None:
    """Set the desk role of a user."""
    if role not in ROLES:
        raise InvalidInput(f"Unknown desk role '{role}'; expected one of {', '.join(ROLES)}", field="role")
    with open_shopfloor(settings) as shopfloor:
        answer = call_desk(shopfloor, "user_set_role", name=user, role=role)
    print_result(answer, as_json, f"{user} has the desk role '{role}'")


def _follow_log(shopfloor: Any, criteria: dict[str, Any], newest: int, as_json: bool) -> None:
    """Print entries after that row as they arrive, until Ctrl-C."""
    while True:
        try:
            time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            return
        for call in _list_since(shopfloor, criteria, newest)[::-1]:
            _print_new_entry(call, as_json)
            newest = call["id"]


def _list_since(shopfloor: Any, criteria: dict[str, Any], newest: int) -> list[dict[str, Any]]:
    """Return all entries after that row, newest first."""
    fresh: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = call_desk(shopfloor, "log_search", **{**criteria, "limit": 200, "cursor": cursor})
        fresh += [call for call in page["calls"] if call["id"] > newest]
        cursor = page.get("nextCursor")
        # With a filter, a page may be empty although there are more rows, so the search itself reports how far it got.
        if cursor is None or page["searchedTo"] <= newest:
            return fresh


def _format_entries(calls: list[dict[str, Any]]) -> str:
    # The call that logged a decision adds nothing to the decision itself.
    decided = {call["reference"] for call in calls if call["outcome"] == "decision"}
    calls = [call for call in calls if call["outcome"] != "ok" or call["reference"] not in decided]
    rows = [
        {
            "reference": call["reference"],
            "age": format_age(call["at"]).removesuffix(" ago"),
            "who": call["agent"].partition(":")[2],
            "call": call["tool"].removeprefix("mcp__"),
            "outcome": call["outcome"],
            "took": "" if call["ms"] is None else format_milliseconds(call["ms"]),
            "summary": _EPIC_PART.sub("", call["summary"] or ""),
        }
        for call in calls
    ]
    # The summary of a failed call begins with its error, so the outcome can be left out.
    return format_table(rows, "", optional=("summary", "call", "outcome", "took"), text="summary")


def _print_new_entry(call: dict[str, Any], as_json: bool) -> None:
    """Print a call that was just made, in one line that fits the terminal."""
    if as_json:
        print(format_json(call), flush=True)
        return
    clock = datetime.fromisoformat(call["at"]).astimezone().strftime("%H:%M:%S")
    who, tool = call["agent"].partition(":")[2], call["tool"].removeprefix("mcp__")
    summary = f"  {to_printable(call['summary'])}" if call["summary"] else ""
    text = f"{clock}  {shorten(who, 12):<12}  {shorten(tool, 22):<22}  {shorten(call['outcome'], 10):<10}"
    print(shorten_line(f"{text}  {call['reference']}{summary}"), flush=True)


def _describe_no_calls(everything: bool) -> str:
    return "No matching calls." if everything else "No calls by agents match. Include your own: shopfloor log --all"


def _format_status(seen: dict[str, Any]) -> str:
    none = "no active agents" if seen["crews"] else "no agents yet"
    counts = ", ".join(f"{count} {state}" for state, count in seen["counts"].items() if count) or none
    calls = format_count(seen["recentCalls"]["calls"], "call")
    waiting = f"{seen['waiting']} waiting for you"
    lines = [f"{paint(waiting, 'bold') if seen['waiting'] else waiting} · {counts} · {calls} in 5 min"]
    if seen["reviews"]:
        lines.append("Tasks wait for your review: shopfloor task list --state review")
    agents = [
        {
            "agent": each["id"],
            "state": each["state"],
            "works on": f"task-{each['task']} {each['taskTitle'] or ''}" if each["task"] else None,
            "last call": each["lastCall"]["tool"].removeprefix("mcp__") if each["lastCall"] else None,
            "seen": format_age(each["lastActiveAt"]),
        }
        for each in seen["agents"]
    ]
    if agents or not seen["crews"]:
        empty = "Connect an agent: shopfloor connect claude (or codex, opencode, gemini …)"
        lines += ["", format_table(agents, empty, optional=("works on", "seen", "last call"))]
    if seen["runs"]:
        rows = [
            {
                "run": run["run"],
                "state": run["status"],
                "iterations": format_iterations(run),
                "elapsed": format_duration(run["elapsed"]),
            }
            for run in seen["runs"]
        ]
        lines += ["", format_table(rows, "", optional=("elapsed",))]
    if seen["crews"]:
        rows = [
            {
                "crew": crew["crew"],
                "state": crew["status"],
                "tasks": format_progress(crew["taskCounts"]),
                "elapsed": format_duration(crew["elapsed"]),
            }
            for crew in seen["crews"]
        ]
        lines += ["", format_table(rows, "", optional=("elapsed",))]
    if seen["deadLetters"]:
        lines += ["", f"{format_count(seen['deadLetters'], 'dead letter')}: see the page Metrics"]
    return "\n".join(lines)


def _verify_log(shopfloor: Shopfloor, anchor: str | None, as_json: bool) -> None:
    found = call_desk(shopfloor, "log_verify", anchor=anchor)
    done = f"{format_count(found['rows'], 'row')} in {format_count(found['seals'], 'seal')} match their digests"
    lines = found["problems"] or [done]
    if found["purgedRows"]:
        lines = [*lines, f"{format_count(found['purgedRows'], 'older row')} were deleted by retention"]
    print_result(found, as_json, "\n".join([*lines, f"Last seal: {found['lastSeal'] or 'none yet'}"]))
    if not found["ok"]:
        raise typer.Exit(1)


def _format_call(call: dict[str, Any]) -> str:
    retries = format_count(call["retries"], "retry", "retries")
    lines = [f"{paint(call['tool'], 'bold')}  {paint_state(call['outcome'])}  {call['reference']}",
             f"by {call['agent']}" + (f" (called by {call['by']})" if call["by"] != call["agent"] else ""),
             f"started {call['startedAt']} ({format_age(call['startedAt'])}), took {format_milliseconds(call['ms'] or 0)}, {retries}", ""]  # fmt: skip
    for name in ("input", "answer"):
        lines += [f"{name}:", format_json(call[name], indent=2), ""]
    if call["stack"]:
        lines += ["stack:", to_printable_lines(call["stack"]), ""]
    lines += [f"event: {event['name']} {format_json(event['data'])}" for event in call["events"]]
    return "\n".join(lines)
