"""Shopfloor: the public Python API, for host programs, the command line and the runner.

Every operation is a call of a tool, so it is checked and logged in the same way as over MCP or on the pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from shopfloor.app import build
from shopfloor.domain.principals import OPERATOR, Kind, Principal
from shopfloor.engine import Engine
from shopfloor.errors import AgentNotFound, InvalidInput, NotFound
from shopfloor.settings import Settings
from shopfloor.toolkit import CallResult, Credential, Json, ReportProgress, Request

T = TypeVar("T")


class Shopfloor:
    """A server in this process.

    >>> with Shopfloor(Settings(project=".")) as shopfloor:
    ...     shopfloor.call("factory", "mcp__agent__get_status", {})

    In a coroutine, open it with `async with` and call `await shopfloor.acall(…)`.
    """

    def __init__(
        self, settings: Settings | None = None, *, kind: str = "embedded", only: Principal | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.engine: Engine = _run_off_loop(lambda: build(self.settings, only=only))
        self._kind = kind

    def __enter__(self) -> Self:
        self.engine.start(self._kind)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.engine.start, self._kind)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Stop the background threads and close the store."""
        self.engine.stop()

    def call(self, toolset: str, tool: str, input: Json | None = None, caller: str | None = None) -> Any:
        """Call a tool and return its response, or its error, in the shape of the toolset.

        The call is made as the operator, who may name an agent or a user to act as in `caller`.
        """
        return self.answer(toolset, tool, input, caller).body

    def answer(
        self,
        toolset: str,
        tool: str,
        input: Json | None = None,
        caller: str | None = None,
        *,
        transport: str = "python",
    ) -> CallResult:
        """Call a tool and return the response with its error, notice and reference."""
        return self.engine.call(self._request(toolset, tool, input, caller, transport))

    async def acall(self, toolset: str, tool: str, input: Json | None = None, caller: str | None = None) -> Any:
        """Call a tool from an event loop and return its response."""
        return (await self.engine.acall(self._request(toolset, tool, input, caller, "python"))).body

    def refresh_index(self, progress: ReportProgress | None = None, *, embeddings: bool = True) -> Json:
        """Bring the search index up to date and return its state; `progress` gets (done, total, stage)."""
        return self.engine.call_desk("index_refresh", {"embeddings": embeddings}, "python", progress)

    def schemas(self, toolset: str, for_model: bool = False) -> list[Json]:
        """Return the toolset's tools in the format of function-calling models."""
        if toolset not in self.engine.toolsets:
            raise InvalidInput(f"Unknown toolset '{toolset}'; expected one of {', '.join(self.engine.toolsets)}")
        return self.engine.schemas(toolset, for_model)

    def _request(self, toolset: str, tool: str, input: Json | None, caller: str | None, transport: str) -> Request:
        credential = Credential(trusted=OPERATOR)
        return self.engine.new_request(toolset, tool, {} if input is None else input, credential, transport, caller)

    def _desk(self, tool: str, **input: Any) -> Json:
        given = {name: value for name, value in input.items() if value is not None}
        return self.engine.call_desk(tool, given, "python")

    def _desk_pages(self, tool: str, key: str) -> Iterator[Json]:
        cursor: str | None = None
        while True:
            page = self._desk(tool, limit=200, cursor=cursor)
            yield from page[key]
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    def create_agent(
        self, name: str, type: str = "WORKER", *, supervisor: str | None = None, issue_token: bool = True
    ) -> Json:
        """Create an agent and return it as `agent`, with its `token`, which is shown only here."""
        return self._desk("agent_create", name=name, type=type, supervisor=supervisor, issueToken=issue_token)

    def get_agent(self, name: str) -> Json:
        """Return one agent, even a retired one."""
        agent: Json = self._desk("agent_show", name=name)["agent"]
        return agent

    def list_agents(self) -> Iterator[Json]:
        """Yield all agents by name, including retired ones."""
        return self._desk_pages("agent_list", "agents")

    def retire_agent(self, name: str) -> Json:
        """Retire an agent, revoke its tokens, and return it."""
        agent: Json = self._desk("agent_retire", name=name)["agent"]
        return agent

    def report_crash(self, name: str) -> Json:
        """Report that an agent's process ended unexpectedly, and return the agent."""
        agent: Json = self._desk("agent_report_crash", name=name)["agent"]
        return agent

    def add_user(self, name: str, *, role: str = "none") -> Json:
        """Add a user with a desk role and return it as `user`, with its `token`, which is shown only here."""
        return self._desk("user_add", name=name, role=role)

    def list_users(self) -> Iterator[Json]:
        """Yield all users by name, including removed ones."""
        return self._desk_pages("user_list", "users")

    def set_desk_role(self, name: str, role: str) -> Json:
        """Set the desk role of a user (viewer, editor or none), and return the user."""
        user: Json = self._desk("user_set_role", name=name, role=role)["user"]
        return user

    def set_password(self, name: str, password: str) -> Json:
        """Set the password of a user, and return the user."""
        user: Json = self._desk("user_set_password", name=name, password=password)["user"]
        return user

    def remove_user(self, name: str) -> Json:
        """Remove a user and return it. Added again within 30 days, the user has the same list."""
        user: Json = self._desk("user_remove", name=name)["user"]
        return user

    def issue_token(
        self, *, agent: str | None = None, user: str | None = None, lifetime_seconds: int | None = None
    ) -> Json:
        """Issue a token for an agent or a user and return it as `issued`, with its text as `token`."""
        return self._desk("token_issue", agent=agent, user=user, lifetimeSeconds=lifetime_seconds)

    def list_tokens(self) -> Iterator[Json]:
        """Yield the tokens of agents and users by id, without their secrets."""
        return self._desk_pages("token_list", "tokens")

    def revoke_token(self, id: str) -> Json:
        """Revoke a token and return it."""
        token: Json = self._desk("token_revoke", id=id)["revoked"]
        return token

    def create_link(self, user: str | None = None) -> Json:
        """Create a sign-in link for the operator or a user: its `token`, `expiresAt` and `serverUrl`."""
        return self._desk("link_create", user=user)

    def get_credential(self, name: str | None) -> Credential:
        """Return a credential of this process for the agent or user of that name; without a name, for the operator."""
        if name is None:
            return Credential(trusted=OPERATOR)
        try:
            agent = self.get_agent(name)
            if agent["retiredAt"] is None:
                return Credential(trusted=Principal(Kind.AGENT, agent["id"], agent["type"]))
        except AgentNotFound:
            pass
        try:
            user = self._desk("user_show", name=name)["user"]
            if user["removedAt"] is None:
                return Credential(trusted=Principal(Kind.USER, user["id"]))
        except NotFound:
            pass
        raise NotFound(f"Agent or user '{name}' not found", name=name)

    @asynccontextmanager
    async def serving(self, port: int | None = None, host: str | None = None) -> AsyncIterator[str]:
        """Serve HTTP inside a host program; yield the URL once the server is listening."""
        from shopfloor.transports import server  # noqa: PLC0415 - transports take longer to load than everything else

        chosen = self.settings.port if port is None else port
        async with server.serve_embedded(self.engine, host or self.settings.host, chosen) as url:
            yield url


def _run_off_loop(work: Callable[[], T]) -> T:
    """Run `work`, on another thread if this one runs an event loop: the store refuses to wait on such a thread.

    This blocks the loop for the 0.1 s that opening the store takes: a constructor cannot be awaited.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(work).result()
