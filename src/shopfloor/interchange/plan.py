"""Plan: epics and tasks of another tracker, in the terms of this one."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from shopfloor.errors import InvalidInput

MAX_TITLE_CHARACTERS = 500
MAX_TEXT_CHARACTERS = 65_536
MAX_FILE_BYTES = 200_000_000
DEFAULT_PRIORITY = 2
BACKLOG_PRIORITY = 4

# No agent of this server holds an imported task, so work in progress elsewhere waits for an agent here.
ImportedState = Literal["PENDING", "REVIEW", "COMPLETED", "CANCELLED"]


@dataclass(frozen=True, slots=True)
class PlanComment:
    """A comment of another tracker."""

    id: str
    author: str
    body: str
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class PlanItem:
    """An epic or a task of another tracker. Ids are those of the other tracker."""

    id: str
    title: str
    kind: Literal["epic", "task"] = "task"
    description: str = ""
    state: ImportedState = "PENDING"
    priority: int = DEFAULT_PRIORITY
    epic: str | None = None
    depends_on: tuple[str, ...] = ()
    comments: tuple[PlanComment, ...] = ()
    completed_at: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The contents of a file, and warnings about what cannot be imported."""

    items: list[PlanItem]
    warnings: list[str] = field(default_factory=list)

    @property
    def epics(self) -> list[PlanItem]:
        return [item for item in self.items if item.kind == "epic"]

    @property
    def tasks(self) -> list[PlanItem]:
        return [item for item in self.items if item.kind == "task"]


def build_plan(items: Iterable[PlanItem], warnings: Iterable[str] = ()) -> Plan:
    """Return a plan whose items fit our limits: unique ids, titles of one line, no epic that is not in the file."""
    found: dict[str, PlanItem] = {}
    notes = list(warnings)
    for item in items:
        if item.id in found:
            notes.append(f"{item.id} is in the file more than once; the last one counts")
        found[item.id] = _fit(item)
    epics = {item.id for item in found.values() if item.kind == "epic"}
    for item in found.values():
        if item.epic is not None and item.epic not in epics:
            notes.append(f"{item.id} belongs to {item.epic}, which is not in the file")
            found[item.id] = replace(item, epic=None)
    return Plan(list(found.values()), notes)


def join_sections(*sections: tuple[str, str]) -> str:
    """Return the non-empty texts, each under its heading. A section without a heading is left unchanged."""
    parts = [(heading, text.strip()) for heading, text in sections]
    return "\n\n".join(f"## {heading}\n\n{text}" if heading else text for heading, text in parts if text)


def read_text(path: Path) -> str:
    """Return the text of a file, or raise an error that names it."""
    try:
        with path.open("rb") as file:
            # A device has no size, and no end.
            is_large = os.fstat(file.fileno()).st_size > MAX_FILE_BYTES
            if is_large or len(data := file.read(MAX_FILE_BYTES + 1)) > MAX_FILE_BYTES:
                raise InvalidInput(f"{path} is larger than {MAX_FILE_BYTES // 1_000_000} MB", field="file")
        return io.StringIO(data.decode("utf-8-sig"), newline=None).read()
    except FileNotFoundError:
        raise InvalidInput(f"{path} not found", field="file") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}", field="file") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text file in UTF-8", field="file") from None


def parse_json(text: str, where: str) -> Any:
    """Return the parsed JSON, or raise an error that says where it is broken."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is not JSON: {error}", field="file") from None


def get_text(values: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is text and not empty."""
    return next((values[name] for name in names if isinstance(values.get(name), str) and values[name]), "")


def list_objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; anything else counts as absent."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _fit(item: PlanItem) -> PlanItem:
    title = " ".join(item.title.split()) or item.id
    description = item.description
    if len(title) > MAX_TITLE_CHARACTERS:
        description = f"{title}\n\n{description}".strip()
        title = f"{title[: MAX_TITLE_CHARACTERS - 1]}…"
    return replace(
        item,
        title=title,
        description=_cut(description),
        completed_at=_check_moment(item.completed_at),
        comments=tuple(
            replace(each, body=_cut(each.body), created_at=_check_moment(each.created_at))
            for each in item.comments
            if each.body.strip()
        ),
    )


def _check_moment(text: str | None) -> str | None:
    """Return the time, or None if it cannot be parsed."""
    if text is None:
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[: MAX_TEXT_CHARACTERS - 1]}…"
