"""Ids as responses show them: mail-12, task-15, epic-3."""

from __future__ import annotations

import re

from shopfloor.domain.epics import EpicNotFound
from shopfloor.domain.mail import MailNotFound
from shopfloor.domain.tasks import TaskNotFound
from shopfloor.errors import NotFound

# 18 digits fit into the 64 bits of a column. A leading zero would give one task several ids.
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


def parse_mail_id(id: str) -> int:
    """Return 12 for mail-12, or raise MailNotFound."""
    return _parse_id("mail", id, MailNotFound)


def parse_task_id(id: str) -> int:
    """Return 15 for task-15, or raise TaskNotFound."""
    return _parse_id("task", id, TaskNotFound)


def parse_epic_id(id: str) -> int:
    """Return 3 for epic-3, or raise EpicNotFound."""
    return _parse_id("epic", id, EpicNotFound)


def format_id(kind: str, number: int | None) -> str | None:
    """Return task-15 for 15, and None for None."""
    return None if number is None else f"{kind}-{number}"


def _parse_id(kind: str, id: str, missing: type[NotFound]) -> int:
    prefix, _, digits = id.partition("-")
    # A malformed id is treated like one that does not exist: in both cases the caller must look the id up.
    if prefix != kind or not _NUMBER.fullmatch(digits):
        error = missing(**{kind: f"'{id[:64]}'"})
        error.facts[kind] = id[:64]
        raise error
    return int(digits)
