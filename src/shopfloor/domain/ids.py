"""Numbers as answers spell them: mail-12, task-15, epic-3."""

from __future__ import annotations

import re

from shopfloor.domain.epics import EpicNotFound
from shopfloor.domain.mail import MailNotFound
from shopfloor.domain.tasks import TaskNotFound
from shopfloor.errors import NotFound

_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


def mail_number(id: str) -> int:
    """12 for mail-12."""
    return _number("mail", id, MailNotFound)


def task_number(id: str) -> int:
    """15 for task-15."""
    return _number("task", id, TaskNotFound)


def epic_number(id: str) -> int:
    """3 for epic-3."""
    return _number("epic", id, EpicNotFound)


def spelled(kind: str, number: int | None) -> str | None:
    """task-15 for 15, nothing for none."""
    return None if number is None else f"{kind}-{number}"


def _number(kind: str, id: str, missing: type[NotFound]) -> int:
    prefix, _, digits = id.partition("-")
    if prefix != kind or not _NUMBER.fullmatch(digits):
        error = missing(**{kind: f"'{id[:64]}'"})
        error.facts[kind] = id[:64]
        raise error
    return int(digits)
