"""Arguments that several factory tools share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from shopfloor.domain.text import LINE_BREAKS, has_visible_character
from shopfloor.toolkit import Json


def _reject_blank(text: str) -> str:
    if not has_visible_character(text):
        raise PydanticCustomError("blank", "must not be blank")
    return text


def _require_one_line(text: str) -> str:
    # Line breaks in a subject would become headers in an e-mail: "Hi\\r\\nBcc: …".
    if len(text.splitlines()) > 1 or text[-1:] in LINE_BREAKS:
        raise PydanticCustomError("one_line", "must be one line")
    return _reject_blank(text)


# Text with at least one visible character.
NotBlank = AfterValidator(_reject_blank)
# The same, without line breaks.
OneLine = AfterValidator(_require_one_line)

AgentId = Annotated[str, Field(description="An agent's id", min_length=1, max_length=64)]
MailId = Annotated[str, Field(description="Such as mail-12", max_length=64)]
TaskId = Annotated[str, Field(description="Such as task-15", max_length=64)]
EpicId = Annotated[str, Field(description="Such as epic-3", max_length=64)]
Title = Annotated[str, Field(description="1-500 characters", min_length=1, max_length=500), OneLine]
Description = Annotated[str, Field(description="At most 65536 characters", max_length=65536)]

_MAX_DESCRIPTION_CHARS = 200


def shorten_line(text: str, characters: int) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def shorten(item: Json) -> Json:
    """Cut the description of an epic or task in a list."""
    if len(item["description"]) <= _MAX_DESCRIPTION_CHARS:
        return item
    return {**item, "description": item["description"][:_MAX_DESCRIPTION_CHARS], "descriptionTruncated": True}
