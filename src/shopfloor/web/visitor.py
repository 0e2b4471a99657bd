"""The signed-in viewer of a page, and the calls that a page makes as that viewer."""

from __future__ import annotations

from typing import Any

from shopfloor import access
from shopfloor.engine import Engine
from shopfloor.errors import ShopfloorError
from shopfloor.toolkit import CallResult, Credential, Json

# The rights of the operator, as `Visitor.rights` names them.
OPERATOR = "operator"


class Visitor:
    """The viewer of a page."""

    def __init__(self, engine: Engine, credential: Credential) -> None:
        assert credential.trusted is not None
        self._engine = engine
        self.principal = credential.trusted
        self.credential = credential

    @property
    def name(self) -> str:
        return self.principal.name

    @property
    def rights(self) -> str:
        """Cache key for pages rendered with the same rights."""
        kind = self.principal.kind.value
        # Two visitors with the same value see the same pages, so a page rendered for one is sent to the other. It must
        # include everything that decides what they may see.
        return OPERATOR if kind == OPERATOR else f"{kind} {self.principal.role}"

    def may(self, tool: str) -> bool:
        """Return whether this visitor may call a desk tool."""
        desk = self._engine.toolsets["desk"]
        return access.allows(desk, self.principal, desk.tools[tool])

    @property
    def has_desk_access(self) -> bool:
        return self.may("floor_overview")

    def needs_credential(self) -> bool:
        """Return whether callers on the server's machine need a credential too."""
        return self._engine.identity.needs_credential()

    async def call(self, tool: str, given: Json, *, toolset: str = "desk", claim: str | None = None) -> CallResult:
        """Call a tool as this visitor and return its response, which may be an error."""
        request = self._engine.new_request(toolset, tool, given, self.credential, "web", claim)
        return await self._engine.acall(request)

    async def ask(self, tool: str, /, *, toolset: str = "desk", claim: str | None = None, **given: Any) -> Json:
        """Call a tool as this visitor and return its response, or raise its error; leave out empty arguments."""
        present = {name: value for name, value in given.items() if value not in (None, "")}
        answer = await self.call(tool, present, toolset=toolset, claim=claim)
        if answer.error is not None:
            raise answer.error
        body: Json = answer.body
        return body

    async def find_badge(self) -> str:
        """Return the number of items in the inbox, as shown beside its name; empty for none, and if it cannot be
        read."""
        try:
            return format_badge(await self.ask("inbox_count"))
        except ShopfloorError:
            # A page must render without its badge: it may be the page that reports what is wrong.
            return ""


def format_badge(counts: Json) -> str:
    """Format a count of `inbox_count` for display beside the name of the inbox; empty for none."""
    return f"{counts['waiting']}{'+' if counts['moreWaiting'] else ''}" if counts["waiting"] else ""
