"""The error tree of Shopfloor.

ShopfloorError                     INTERNAL_ERROR
├── ClientError                    the caller's mistake: rejected, logged, never escalated
│   ├── InvalidInput               INVALID_INPUT
│   │   ├── IdempotencyKeyReused   INVALID_INPUT
│   │   ├── PathNotAllowed         INVALID_INPUT
│   │   ├── NotAFile               INVALID_INPUT
│   │   ├── FileTooLarge           INVALID_INPUT
│   │   ├── NotText                INVALID_INPUT
│   │   ├── BadPattern             INVALID_INPUT
│   │   └── ImportParseError       INVALID_INPUT
│   ├── Unauthenticated            PERMISSION_DENIED
│   │   └── WrongPassword          PERMISSION_DENIED
│   ├── PermissionDenied           PERMISSION_DENIED
│   │   └── PathDenied             PERMISSION_DENIED
│   ├── NotFound                   RESOURCE_NOT_FOUND
│   │   ├── ToolNotFound           TOOL_NOT_FOUND
│   │   ├── AgentNotFound          AGENT_NOT_FOUND
│   │   ├── FileNotFound           RESOURCE_NOT_FOUND
│   │   └── IndexEmpty             RESOURCE_NOT_FOUND
│   ├── InvalidState               INVALID_AGENT_STATE
│   │   ├── RunNotActive           INVALID_AGENT_STATE
│   │   └── RunNotDriven           INVALID_AGENT_STATE
│   └── RateLimited                RATE_LIMITED
├── Unavailable                    TRANSIENT_ERROR: a retry may succeed
│   ├── TooBusy
│   ├── StoreBusy
│   ├── StoreUnreachable
│   ├── StoreFull
│   ├── StoreUnwritable
│   ├── CommitOutcomeUnknown
│   ├── EmbeddingFailed
│   └── DeliveryFailed
├── StoreFailed                    INTERNAL_ERROR: the store failed permanently
│   ├── StoreDamaged
│   └── StoreReplaced
├── AgentFailed                    INTERNAL_ERROR: the agent of a run died, hung or sent invalid data
├── GitFailed                      INTERNAL_ERROR: a git command of a crew failed
│   └── MergeConflict
└── StartupError                   the server refuses to start; a person must act
    ├── BadSettings
    ├── SchemaTooNew
    ├── SchemaOutdated
    ├── AlreadyRunning
    └── UnsafeBind

An error has a code for machines, a sentence for readers (its docstring, filled with its facts,
unless a message is given), and facts that each contract renders in its own way.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar


class ShopfloorError(Exception):
    """An internal error occurred."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    transient: ClassVar[bool] = False
    is_rejection: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, hint: str | None = None, **facts: Any) -> None:
        self.facts = facts
        self.hint = hint
        if message is None:
            message = (type(self).__doc__ or "").strip().splitlines()[0]
            # If facts are missing, the sentence is used unformatted: raising an error must not fail.
            with suppress(KeyError, IndexError):
                message = message.format(**facts)
        self.message = message
        super().__init__(message)


class ClientError(ShopfloorError):
    """The call was rejected."""

    code = "INVALID_INPUT"
    is_rejection = True


class InvalidInput(ClientError):
    """Invalid input."""


class IdempotencyKeyReused(InvalidInput):
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


class ImportParseError(InvalidInput):
    """Failed to parse imports"""


class Unauthenticated(ClientError):
    """A valid credential is required."""

    code = "PERMISSION_DENIED"


class WrongPassword(Unauthenticated):
    """The name or the password is wrong"""


class PermissionDenied(ClientError):
    """Permission denied."""

    code = "PERMISSION_DENIED"


class PathDenied(PermissionDenied):
    """Permission denied"""


class NotFound(ClientError):
    """Not found."""

    code = "RESOURCE_NOT_FOUND"


class ToolNotFound(NotFound):
    """Tool '{tool}' does not exist."""

    code = "TOOL_NOT_FOUND"


class AgentNotFound(NotFound):
    """Agent '{agent}' does not exist."""

    code = "AGENT_NOT_FOUND"


class FileNotFound(NotFound):
    """File not found"""


class IndexEmpty(NotFound):
    """No embeddings found. Run initial session to generate context."""


class InvalidState(ClientError):
    """The agent is in the wrong state for this call."""

    code = "INVALID_AGENT_STATE"


class RunNotActive(InvalidState):
    """Run '{run}' is {state}."""


class RunNotDriven(InvalidState):
    """Run '{run}' was interrupted; no process drives it."""


class RateLimited(ClientError):
    """Rate limit exceeded for {tool}; try again in {seconds} s."""

    code = "RATE_LIMITED"


class Unavailable(ShopfloorError):
    """Temporarily unavailable; retry shortly."""

    code = "TRANSIENT_ERROR"
    transient = True


class TooBusy(Unavailable):
    """Too many calls in flight; retry shortly."""


class StoreBusy(Unavailable):
    """The store is busy; retry shortly."""


class StoreUnreachable(Unavailable):
    """The store cannot be reached; retry shortly."""


class StoreFull(Unavailable):
    """The disk is full; nothing was written. Free some space, then retry."""

    # Space does not come back within the seconds of a retry, so the caller gets the error at once.
    transient = False


class StoreUnwritable(Unavailable):
    """The disk rejects reads or writes; nothing was written. Check the disk, then retry."""

    # As with a full disk, a person has to act.
    transient = False


class CommitOutcomeUnknown(Unavailable):
    """The connection was lost during COMMIT; whether the write took effect is unknown."""


class EmbeddingFailed(Unavailable):
    """Failed to generate query embedding"""

    # A caller that has waited for the endpoint once should not wait again.
    transient = False


class DeliveryFailed(Unavailable):
    """Event delivery failed."""


class StoreFailed(ShopfloorError):
    """The store failed."""


class StoreDamaged(StoreFailed):
    """The database is damaged. Stop the server and restore a backup."""


class StoreReplaced(StoreFailed):
    """The database file was deleted, replaced or emptied; nothing was written. Put it back, then start the server again."""


class AgentFailed(ShopfloorError):
    """The agent failed."""


class GitFailed(ShopfloorError):
    """A git command failed."""


class MergeConflict(GitFailed):
    """The work conflicts with work that was merged before."""


class StartupError(ShopfloorError):
    """The server cannot start."""


class BadSettings(StartupError):
    """Invalid setting."""


class SchemaTooNew(StartupError):
    """The store has schema {found}, newer than the {known} that this version knows; upgrade shopfloor."""


class SchemaOutdated(StartupError):
    """The database has schema {found}, and this version needs schema {known}."""


class AlreadyRunning(StartupError):
    """Another server already uses this data folder."""


class UnsafeBind(StartupError):
    """A server that other machines can reach requires credentials first."""
