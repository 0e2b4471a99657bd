"""Print the transcript of a run."""

from __future__ import annotations

from typing import Any

import typer

from shopfloor.cli.options import call_desk
from shopfloor.cli.output import paint, print_result, shorten, to_printable, to_printable_lines
from shopfloor.domain.text import format_json
from shopfloor.serving import Shopfloor

WAIT_SECONDS = 5
"""How long one call waits for a change. After that, check whether the run is still driven."""
MAX_PAGE = 200
FOLDED_LINES = 3
"""Lines of arguments and results that are shown, unless --full is given."""

_MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "in_progress": ("▸", "cyan")}


def print_transcript(
    shopfloor: Shopfloor, name: str, *, iteration: int | None, query: str | None, limit: int, full: bool, as_json: bool
) -> None:
    """Print the last entries of a run's transcript, oldest first."""
    entries, _ = _load_entries(shopfloor, limit, owner=f"run:{name}", iteration=iteration, query=query)
    text = "\n".join(_format_entry(entry, full) for entry in entries)
    hint = "No transcript yet. It is recorded while the run works." if query is None else "Nothing found."
    print_result(entries, as_json, text or hint)


def follow_transcript(shopfloor: Shopfloor, name: str, *, limit: int, full: bool, as_json: bool) -> None:
    """Print entries as they arrive: the agent's words as they grow, other entries with each change."""
    entries, revision = _load_entries(shopfloor, limit, owner=f"run:{name}")
    shown: dict[int, dict[str, Any]] = {}
    while True:
        for entry in entries:
            earlier = shown.get(entry["number"])
            shown[entry["number"]] = entry
            if as_json or earlier is None or entry["kind"] not in ("message", "thought"):
                typer.echo(format_json(entry) if as_json else _format_entry(entry, full))
            elif entry["body"] != earlier["body"]:
                known = earlier["body"] if entry["body"].startswith(earlier["body"]) else ""
                typer.echo(to_printable_lines(entry["body"][len(known) :]))
        page = call_desk(shopfloor, "transcript_wait", owner=f"run:{name}", after=revision, seconds=WAIT_SECONDS)
        entries, revision = page["entries"], page["revision"]
        if not entries and not call_desk(shopfloor, "run_show", run=name)["driven"]:
            return


def _load_entries(shopfloor: Shopfloor, limit: int, **given: Any) -> tuple[list[dict[str, Any]], int]:
    """Load the last entries, oldest first, and the revision of the transcript."""
    entries: list[dict[str, Any]] = []
    page = call_desk(shopfloor, "transcript_list", limit=min(limit, MAX_PAGE), **given)
    revision = page["revision"]
    while True:
        entries += page["entries"]
        if len(entries) >= limit or "nextCursor" not in page:
            return entries[:limit][::-1], revision
        left, cursor = min(limit - len(entries), MAX_PAGE), page["nextCursor"]
        page = call_desk(shopfloor, "transcript_list", limit=left, cursor=cursor, **given)


def _format_entry(entry: dict[str, Any], full: bool) -> str:
    """Format an entry for people: words as they are, calls as one line with folded arguments and results."""
    kind, body = entry["kind"], to_printable_lines(entry["body"])
    match kind:
        case "prompt":
            head = paint(f"── iteration {entry['iteration']} · {entry['at'][:16].replace('T', ' ')} ──", "bold")
            return "\n".join([head, *_fold(body, "  ", full)]) if full else head
        case "message":
            return body
        case "thought":
            return "\n".join(paint(line, "dim") for line in _fold(body, "  ", full))
        case "plan":
            marks = {"x": "✓", "~": "▸", " ": "○"}
            lines = [f"  {marks.get(line[3:4], '○')} {line[6:]}" for line in body.splitlines()]
            return "\n".join([paint("plan", "bold"), *lines])
        case "dropped":
            return paint(f"… {entry['title']}", "yellow")
    title = to_printable(entry["title"])
    if kind == "permission":
        lines = [paint(f"? {title}", "yellow"), *_fold(body, "    ", full)]
        return "\n".join([*lines, f"    → {to_printable(entry['result']) or 'not answered yet'}"])
    mark, colour = _MARKS.get(entry["status"], ("○", "dim"))
    lines = [f"{paint(mark, colour)} {title}", *_fold(body, "    ", full)]
    return "\n".join([*lines, *_fold(to_printable_lines(entry["result"]), "    → ", full)])


def _fold(text: str, indent: str, full: bool) -> list[str]:
    """Indent the lines of a text; unless all of it is wanted, only the first ones, each cut to the terminal."""
    lines = text.strip("\n").splitlines() if text.strip() else []
    if full:
        return [f"{indent}{line}" for line in lines]
    shown = [paint(shorten(f"{indent}{line}", 100), "dim") for line in lines[:FOLDED_LINES]]
    left = len(lines) - FOLDED_LINES
    return [*shown, paint(f"{indent}… {left} more lines", "dim")] if left > 0 else shown
