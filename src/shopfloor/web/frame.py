"""What all pages of the desk share: who looks, the templates, forms, and calls made as whoever looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import Response

from shopfloor.app import Floor
from shopfloor.errors import ShopfloorError, Unauthenticated
from shopfloor.toolkit import Answer, Call, Credential, Json
from shopfloor.web import charts
from shopfloor.web.text import pretty, prose, shown

OPERATOR = "operator"
"""The rights of whoever runs the floor."""

NAV = (
    ("/floor", "Floor", "floor_overview"),
    ("/inbox", "Inbox", "inbox_waiting"),
    ("/boards", "Boards", "board_epics"),
    ("/log", "Log", "log_search"),
    ("/context", "Context", "memory_show"),
    ("/figures", "Metrics", "metrics"),
    ("/people", "People", "people_agents"),
)

Handler = Callable[[Request], Awaitable[Response]]


class Visitor:
    """Whoever looks at a page, and what they may do there."""

    def __init__(self, floor: Floor, credential: Credential) -> None:
        assert credential.trusted is not None
        self._floor = floor
        self.principal = credential.trusted
        self.credential = credential

    @property
    def name(self) -> str:
        return self.principal.name

    @property
    def rights(self) -> str:
        """The same for all who see the same."""
        kind = self.principal.kind.value
        return OPERATOR if kind == OPERATOR else f"{kind} {self.principal.role}"

    def may(self, tool: str) -> bool:
        """Whether a tool of the desk would do it for this visitor."""
        return self._floor.may(self._floor.toolsets["desk"], self.principal, tool)

    @property
    def at_the_desk(self) -> bool:
        return self.may("floor_overview")

    async def answer(self, tool: str, given: Json, *, toolset: str = "desk", claim: str | None = None) -> Answer:
        """The answer of a tool, called as this visitor."""
        call = Call(self._floor.toolsets[toolset], tool, given, self.credential, "web", claim=claim)
        return await self._floor.acall(call)

    async def ask(self, tool: str, /, *, toolset: str = "desk", claim: str | None = None, **given: Any) -> Json:
        """The same; a refusal is raised."""
        wanted = {name: value for name, value in given.items() if value not in (None, "")}
        answer = await self.answer(tool, wanted, toolset=toolset, claim=claim)
        if answer.error is not None:
            raise answer.error
        body: Json = answer.body
        return body


def dress(templates: Environment) -> None:
    """Give the templates what pages of the desk print with."""
    templates.finalize = shown
    templates.filters |= {"prose": prose, "pretty": pretty, "who": who, "clock": clock, "took": took, "size": size}
    templates.globals |= {"charts": charts, "nav": NAV, "query": query}


def who(key: str) -> str:
    """builder-1 for agent:builder-1."""
    return key.partition(":")[2] or key


def clock(at: str | None) -> str:
    """A time before a script has put it into the viewer's zone."""
    return "" if at is None else f"{at[:10]} {at[11:19]} UTC"


def took(seconds: float | None) -> str:
    """A span of time, in words."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def size(count: float) -> str:
    """Bytes, in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def query(given: Mapping[str, Any], **changes: Any) -> str:
    """The address of the same page with something changed."""
    wanted = {name: value for name, value in {**given, **changes}.items() if value not in (None, "", False)}
    return f"?{urlencode(wanted)}" if wanted else "?"


def local(path: str | None, otherwise: str = "/floor") -> str:
    """A path on this server, whatever somebody put there."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")) or any(ord(char) < 33 for char in path):
        return otherwise
    return path


def status_of(error: ShopfloorError | None) -> int:
    """The HTTP status of a page that tells of an error."""
    if error is None:
        return 200
    if isinstance(error, Unauthenticated):
        return 401
    codes = {
        "PERMISSION_DENIED": 403, "RESOURCE_NOT_FOUND": 404, "AGENT_NOT_FOUND": 404, "TOOL_NOT_FOUND": 404,
        "INVALID_INPUT": 422, "INVALID_AGENT_STATE": 409, "RATE_LIMITED": 429,
    }  # fmt: skip
    return codes.get(error.code, 503 if error.transient else 500)
