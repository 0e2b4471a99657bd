"""Every way in which Shopfloor says no.

ShopfloorError                     INTERNAL_ERROR
├── Refused                        the caller's mistake: said once, logged, never escalated
│   ├── InvalidInput               INVALID_INPUT
│   │   ├── KeyReused              INVALID_INPUT
│   │   ├── PathNotAllowed         INVALID_INPUT
│   │   ├── NotAFile               INVALID_INPUT
│   │   ├── FileTooLarge           INVALID_INPUT
│   │   ├── NotText                INVALID_INPUT
│   │   ├── BadPattern             INVALID_INPUT
│   │   └── ImportsUnreadable      INVALID_INPUT
│   ├── Unauthenticated            PERMISSION_DENIED
│   ├── PermissionDenied           PERMISSION_DENIED
│   │   └── PathDenied             PERMISSION_DENIED
│   ├── NotFound                   RESOURCE_NOT_FOUND
│   │   ├── ToolNotFound           TOOL_NOT_FOUND
│   │   ├── AgentNotFound          AGENT_NOT_FOUND
│   │   ├── FileNotFound           RESOURCE_NOT_FOUND
│   │   └── NothingIndexed         RESOURCE_NOT_FOUND
│   ├── WrongState                 INVALID_AGENT_STATE
│   └── RateLimited                RATE_LIMITED
├── Unavailable                    TRANSIENT_ERROR: the same call may work in a moment
│   ├── TooBusy
│   ├── StoreBusy
│   ├── StoreUnreachable
│   ├── CommitUnknown
│   ├── EmbeddingFailed
│   └── Undelivered
├── StoreFailed                    INTERNAL_ERROR: the store said no for good
│   └── StoreFull
├── AgentFailed                    INTERNAL_ERROR: the agent of a run died, hung or spoke nonsense
└── StartRefused                   the floor does not start; a person has to act
    ├── BadSettings
    ├── SchemaTooNew
    ├── FloorTaken
    └── UnsafeBind

An error has a code for machines, a sentence for readers (its docstring, filled with its facts,
unless a message is given), and facts that each toolset spells its own way.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ShopfloorError(Exception):
    """Something went wrong inside the floor."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    transient: ClassVar[bool] = False
    refusal: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, hint: str | None = None, **facts: Any) -> None:
        self.facts = facts
        self.hint = hint
        self.message = message if message is not None else _sentence(type(self), facts)
        super().__init__(self.message)


class Refused(ShopfloorError):
    """The call was refused."""

    code = "INVALID_INPUT"
    refusal = True


class InvalidInput(Refused):
    """The input is not valid."""


class KeyReused(InvalidInput):
    """The idempotency key was used before with other input; use a new key for a new call."""


class PathNotAllowed(InvalidInput):
    """Path traversal not allowed"""


class NotAFile(InvalidInput):
    """Not a regular file"""


class FileTooLarge(InvalidInput):
    """File too large"""


class NotText(InvalidInput):
    """Binary file"""


class BadPattern(InvalidInput):
    """Invalid regex pattern"""


class ImportsUnreadable(InvalidInput):
    """Failed to parse imports"""


class Unauthenticated(Refused):
    """A valid credential is needed."""

    code = "PERMISSION_DENIED"


class PermissionDenied(Refused):
    """You may not do this."""

    code = "PERMISSION_DENIED"


class PathDenied(PermissionDenied):
    """Permission denied"""


class NotFound(Refused):
    """It does not exist."""

    code = "RESOURCE_NOT_FOUND"


class ToolNotFound(NotFound):
    """Tool '{tool}' does not exist."""

    code = "TOOL_NOT_FOUND"


class AgentNotFound(NotFound):
    """Agent '{agent}' does not exist."""

    code = "AGENT_NOT_FOUND"


class FileNotFound(NotFound):
    """File not found"""


class NothingIndexed(NotFound):
    """No embeddings found. Run initial session to generate context."""


class WrongState(Refused):
    """The agent is in the wrong state for this."""

    code = "INVALID_AGENT_STATE"


class RateLimited(Refused):
    """Rate limit exceeded for {tool}; try again in {seconds} s."""

    code = "RATE_LIMITED"


class Unavailable(ShopfloorError):
    """The floor is busy; the same call may work in a moment."""

    code = "TRANSIENT_ERROR"
    transient = True


class TooBusy(Unavailable):
    """Too many calls are under way; try again in a moment."""


class StoreBusy(Unavailable):
    """The store is busy; try again in a moment."""


class StoreUnreachable(Unavailable):
    """The store cannot be reached; try again in a moment."""


class CommitUnknown(Unavailable):
    """The connection was lost while committing; whether the write happened is not known."""


class EmbeddingFailed(Unavailable):
    """Failed to generate query embedding"""

    transient = False  # the caller has waited long enough


class Undelivered(Unavailable):
    """An event did not reach the other side."""


class StoreFailed(ShopfloorError):
    """The store failed."""


class StoreFull(StoreFailed):
    """The disk is full; nothing was written. Free some space, then call again."""


class AgentFailed(ShopfloorError):
    """The agent failed."""


class StartRefused(ShopfloorError):
    """The floor cannot start."""


class BadSettings(StartRefused):
    """A setting is wrong."""


class SchemaTooNew(StartRefused):
    """The store has schema {found}, newer than the {known} that this version knows; upgrade shopfloor."""


class FloorTaken(StartRefused):
    """Another server already serves this data folder."""


class UnsafeBind(StartRefused):
    """A floor that others can reach needs credentials first."""


def _sentence(kind: type[ShopfloorError], facts: dict[str, Any]) -> str:
    template = (kind.__doc__ or "").strip().splitlines()[0]
    try:
        return template.format(**facts)
    except (KeyError, IndexError):
        return template
