"""Beads: issues as JSON lines, one issue per line (`.beads/issues.jsonl`)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from shopfloor.errors import InvalidInput
from shopfloor.interchange.plan import (
    BACKLOG_PRIORITY,
    DEFAULT_PRIORITY,
    ImportedState,
    Plan,
    PlanComment,
    PlanItem,
    build_plan,
    get_text,
    join_sections,
    list_objects,
    parse_json,
    read_text,
)

DEFAULT_FILE = ".beads/issues.jsonl"

_BLOCKING = ("blocks", "conditional-blocks", "waits-for")
_PARENT = "parent-child"
# A molecule is what `bd` turns a workflow into: the parent of its steps.
_EPIC_TYPES = ("epic", "molecule")
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# The close reasons that an export writes for completed and cancelled tasks. An import drops them.
_EXPORTED_REASONS = ("done", "won't do")
_STATUS_BY_STATE = {"COMPLETED": "closed", "CANCELLED": "closed", "IN_PROGRESS": "in_progress", "BLOCKED": "blocked"}


def read_beads(path: Path) -> Plan:
    """Read the issues of a file.

    Deleted ones (tombstones), messages, templates, memories and ephemeral issues of a workflow are left out.
    """
    issues: list[Mapping[str, Any]] = []
    others = 0
    # Not splitlines: a text may contain a raw U+2028, which other programs that write this format do not escape.
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        issue = parse_json(line, f"{path}, line {number}")
        # `bd export` also writes what agents remember, as {"_type": "memory", "key": …, "value": …}.
        if isinstance(issue, dict) and issue.get("_type", "issue") != "issue":
            others += 1
            continue
        if not isinstance(issue, dict) or not get_text(issue, "id"):
            raise InvalidInput(f"{path}, line {number} is not a Beads issue: it has no id", field="file")
        issues.append(issue)
    kept = [issue for issue in issues if not _is_left_out(issue)]
    left_out = {
        "deleted or ephemeral issues, messages and templates": len(issues) - len(kept),
        "memories and other records": others,
    }
    warnings = [f"Left out: {count} {what}" for what, count in left_out.items() if count]
    epics = {get_text(issue, "id") for issue in kept if issue.get("issue_type") in _EPIC_TYPES}
    parents = {get_text(issue, "id"): _find_parent(issue) for issue in kept}
    items = (_to_item(issue, epics, _find_epic(get_text(issue, "id"), parents, epics)) for issue in kept)
    return build_plan(items, warnings)


def write_beads(epics: Iterable[Mapping[str, Any]], tasks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line per epic and task. Ids start with `sf`: run `bd init --prefix sf` before importing them."""
    for epic in epics:
        yield _format_issue(f"sf-e{epic['number']}", epic, "epic", [], [])
    for task in tasks:
        id = f"sf-{task['number']}"
        parents = [{"issue_id": id, "depends_on_id": f"sf-e{task['epic']}", "type": _PARENT}] if task["epic"] else []
        blockers = [{"issue_id": id, "depends_on_id": f"sf-{number}", "type": "blocks"} for number in task["dependsOn"]]
        comments = [
            {
                "id": comment["id"],
                "issue_id": id,
                "author": comment["author"],
                "text": comment["body"],
                "created_at": comment["createdAt"],
            }
            for comment in task["comments"]
        ]
        yield _format_issue(id, task, "task", parents + blockers, comments)


def _is_left_out(issue: Mapping[str, Any]) -> bool:
    return (
        issue.get("status") == "tombstone"
        or issue.get("issue_type") == "message"
        or issue.get("is_template") is True
        or issue.get("ephemeral") is True
    )


def _find_parent(issue: Mapping[str, Any]) -> str | None:
    edges = list_objects(issue.get("dependencies"))
    return next((get_text(each, "depends_on_id") for each in edges if each.get("type") == _PARENT), None)


def _find_epic(id: str, parents: Mapping[str, str | None], epics: set[str]) -> str | None:
    """Return the nearest epic above an issue: a task may belong to a feature, and the feature to an epic."""
    seen = {id}
    above = parents.get(id)
    while above is not None and above not in seen:
        if above in epics:
            return above
        seen.add(above)
        above = parents.get(above)
    return None


def _get_plain_text(issue: Mapping[str, Any], name: str) -> str:
    """Return a text without terminal colours, which agents paste with the output of commands."""
    return _ESCAPE_SEQUENCE.sub("", get_text(issue, name))


def _to_item(issue: Mapping[str, Any], epics: set[str], epic: str | None) -> PlanItem:
    id, status, close_reason = get_text(issue, "id"), issue.get("status"), _get_plain_text(issue, "close_reason")
    edges = [(each.get("type"), get_text(each, "depends_on_id")) for each in list_objects(issue.get("dependencies"))]
    state: ImportedState = "PENDING"
    if status == "closed":
        state = "CANCELLED" if close_reason.lower().startswith(("won't", "wontfix")) else "COMPLETED"
    given = issue.get("priority", 0)  # bd leaves out a priority of 0
    priority = given if isinstance(given, int) and 0 <= given <= BACKLOG_PRIORITY else DEFAULT_PRIORITY
    labels = issue.get("labels")
    return PlanItem(
        id=id,
        title=_get_plain_text(issue, "title"),
        kind="epic" if id in epics else "task",
        description=join_sections(
            ("", _get_plain_text(issue, "description")),
            ("Design", _get_plain_text(issue, "design")),
            ("Acceptance criteria", _get_plain_text(issue, "acceptance_criteria")),
            ("Notes", _get_plain_text(issue, "notes")),
            ("Close reason", "" if close_reason in _EXPORTED_REASONS else close_reason),
            ("Labels", ", ".join(map(str, labels)) if isinstance(labels, list) else ""),
        ),
        state=state,
        priority=BACKLOG_PRIORITY if status == "deferred" else priority,
        epic=None if id in epics else epic,
        depends_on=tuple(target for kind, target in edges if kind in _BLOCKING and target),
        comments=tuple(_to_comment(each) for each in list_objects(issue.get("comments"))),
        completed_at=get_text(issue, "closed_at") or None,
    )


def _to_comment(comment: Mapping[str, Any]) -> PlanComment:
    body = _ESCAPE_SEQUENCE.sub("", get_text(comment, "text", "body"))
    id = comment.get("id")
    return PlanComment(
        # A comment without an id is identified by its text, so that a second import does not add it again.
        id=str(id) if isinstance(id, int | str) else hashlib.sha256(body.encode()).hexdigest()[:16],
        author=get_text(comment, "author") or "unknown",
        body=body,
        created_at=get_text(comment, "created_at") or None,
    )


def _format_issue(
    id: str, item: Mapping[str, Any], type: str, dependencies: list[dict[str, Any]], comments: list[dict[str, Any]]
) -> str:
    issue: dict[str, Any] = {
        "id": id,
        "title": item["title"],
        "description": item["description"],
        "status": _STATUS_BY_STATE.get(item["state"], "open"),
        "priority": item.get("priority", DEFAULT_PRIORITY),
        "issue_type": type,
        "created_at": item["createdAt"],
        "updated_at": item["updatedAt"],
    }
    if issue["status"] == "closed":
        issue["closed_at"] = item["completedAt"] or item["updatedAt"]
        issue["close_reason"] = _EXPORTED_REASONS[item["state"] == "CANCELLED"]
    if item.get("assignee"):
        issue["assignee"] = item["assignee"]
    if dependencies:
        issue["dependencies"] = [{**each, "created_at": item["createdAt"]} for each in dependencies]
    if comments:
        issue["comments"] = comments
    return json.dumps(issue, ensure_ascii=False, separators=(",", ":"))
