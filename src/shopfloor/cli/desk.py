"""shopfloor status, log, board, link, desk, watch: the desk in a terminal."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, command, doors, opened, show, table
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

EVERY = 0.5

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what is new, until Ctrl-C.")]
Many = Annotated[int, typer.Option("--limit", "-n", help="How many rows.", min=1, max=200)]


def register(app: typer.Typer) -> None:
    """Add the commands."""

    @command(app, "status")
    def status(settings: Settings, as_json: AsJson = False, follow: Follow = False) -> None:
        """Show who works on what, what is stuck, and what waits for a person."""
        with opened(settings) as shopfloor:
            for seen in _again(follow, lambda: _ask(shopfloor, "floor_overview")):
                show(seen, as_json, _status(seen))

    @command(app, "log")
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
                call = _ask(shopfloor, "log_call", reference=reference)
                show(call, as_json, _opened_call(call))
            else:
                _log(shopfloor, sought, follow, as_json)

    @command(app, "board")
    def board(
        settings: Settings,
        name: Annotated[str | None, typer.Argument(help="An epic such as epic-1, or a loop; without one, all.")] = None,
        as_json: AsJson = False,
        follow: Follow = False,
    ) -> None:
        """Show the boards, or one board with its tasks by state."""
        with opened(settings) as shopfloor:
            for seen in _again(follow, lambda: _looked_at(shopfloor, name)):
                show(seen, as_json, _boards(seen) if name is None else _board(seen))

    @command(app, "link")
    def link(
        settings: Settings, user: Annotated[str | None, typer.Option("--user", help="For this user.")] = None
    ) -> None:
        """Print a one-time link to the pages: for the operator, or for a user."""
        key = doors().link(settings, user)
        with opened(settings) as shopfloor:
            seen = _ask(shopfloor, "floor_overview")
        served = next((each["url"] for each in seen["processes"] if each["kind"] == "serve" and each["url"]), None)
        print(f"{served or f'http://{settings.host}:{settings.port}'}/enter?key={key}")

    @command(app, "desk")
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
            answer = _ask(shopfloor, "key_seat", name=user, desk=right)
        show(answer, as_json, f"{user} has the right '{right}' at the desk")

    _register_watch(app)


def _register_watch(app: typer.Typer) -> None:
    @command(app, "watch")
    def watch(settings: Settings) -> None:
        """Watch floor, inbox and loops full-screen; answer, pause and send messages by key."""
        from shopfloor.cli import screen  # noqa: PLC0415 - a terminal program that no other command needs

        with opened(settings) as shopfloor:
            screen.Watch(lambda tool, given: _ask(shopfloor, tool, **given)).run()


def _ask(shopfloor: Any, tool: str, /, **given: Any) -> dict[str, Any]:
    wanted = {name: value for name, value in given.items() if value is not None}
    answer = shopfloor.answer("desk", tool, wanted, door="cli")
    if answer.error is not None:
        raise answer.error
    body: dict[str, Any] = answer.body
    return body


def _looked_at(shopfloor: Any, board: str | None) -> dict[str, Any]:
    """One board, or all of them."""
    if board is None:
        return {**_ask(shopfloor, "board_epics"), "runs": _ask(shopfloor, "run_list")["runs"]}
    epic = board.startswith("epic-")
    name = board.removeprefix("epic-") if epic else board
    return _ask(shopfloor, "board_show", kind="epic" if epic else "loop", board=name)


def _again(follow: bool, look: Any) -> Any:
    """What there is to see; when following, again whenever it is different."""
    last = None
    while True:
        seen = look()
        told = json.dumps(seen, sort_keys=True)
        if told != last:
            if last is not None:
                print()
            yield seen
        last = told
        if not follow:
            return
        try:
            time.sleep(EVERY)
        except KeyboardInterrupt:
            return


def _log(shopfloor: Any, sought: dict[str, Any], follow: bool, as_json: bool) -> None:
    calls = _ask(shopfloor, "log_search", **sought)["calls"][::-1]
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
        fresh = [
            call for call in _ask(shopfloor, "log_search", **{**sought, "limit": 200})["calls"] if call["id"] > newest
        ]
        for call in fresh[::-1]:
            _line(call, as_json)
            newest = call["id"]


def _line(call: dict[str, Any], as_json: bool) -> None:
    took = "" if call["ms"] is None else f"{call['ms']:.1f} ms"
    who = call["agent"].partition(":")[2]
    text = f"{call['at'][:19].replace('T', ' ')}  {who:<12.12}  {call['tool']:<28.28}  {call['outcome']:<17.17}  {took:>10}  {call['reference']}"
    note = f"  {_plain(call['summary'])[:80]}" if call["kind"] in ("manual", "error") else ""
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


def _boards(seen: dict[str, Any]) -> str:
    rows = [
        {"board": epic["id"], "title": _plain(epic["title"])[:50], "state": epic["state"].lower(),
         "done": f"{epic['tasks'].get('COMPLETED', 0)} of {sum(epic['tasks'].values())}"}
        for epic in seen["epics"]
    ]  # fmt: skip
    rows += [
        {"board": run["run"], "title": "loop", "state": run["state"], "done": f"iteration {run['iteration']}"}
        for run in seen["runs"]
    ]
    return table(rows, "There is no board yet: an agent makes one with mcp__epic__create, a loop with shopfloor run.")


def _board(seen: dict[str, Any]) -> str:
    lines = [_plain(seen["title"])]
    for column in seen["columns"]:
        if column["tasks"]:
            lines += ["", f"{column['state'].lower().replace('_', ' ')} ({column['count']})"]
            lines += [
                f"  {task['id']:<9} {_plain(task['title'])[:60]:<60}  {task['assignee'] or ''}"
                for task in column["tasks"]
            ]
    return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}\n\nIt has no tasks yet."


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


def _plain(text: str) -> str:
    """Text of agents must not steer the terminal."""
    return "".join(char if char.isprintable() else "�" for char in text)


def _plain_lines(text: str) -> str:
    return "\n".join(_plain(line) for line in text.split("\n"))
