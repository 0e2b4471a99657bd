"""Arguments that many tools of the factory share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from shopfloor.toolkit import Json


def _some_words(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "needs some words")
    return text


Words = AfterValidator(_some_words)
"""Text that says something."""

AgentId = Annotated[str, Field(description="An agent's id", min_length=1, max_length=64)]
MailId = Annotated[str, Field(description="Such as mail-12", max_length=64)]
TaskId = Annotated[str, Field(description="Such as task-15", max_length=64)]
EpicId = Annotated[str, Field(description="Such as epic-3", max_length=64)]
Title = Annotated[str, Field(description="1-500 characters", min_length=1, max_length=500), Words]
Description = Annotated[str, Field(description="At most 65536 characters", max_length=65536)]

_SHORT = 200


def shortened(item: Json) -> Json:
    """An epic or task with only the beginning of its description."""
    if len(item["description"]) <= _SHORT:
        return item
    return {**item, "description": item["description"][:_SHORT], "descriptionTruncated": True}
