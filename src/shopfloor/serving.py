"""Shopfloor: a floor with its doors, for host programs, the command line and the runner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from shopfloor.app import Floor, build
from shopfloor.domain.actors import OPERATOR, Agent, Kind, Person, Principal, Token
from shopfloor.domain.times import DAY
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work
from shopfloor.settings import Settings
from shopfloor.toolkit import Answer, Call, Credential, Json
from shopfloor.usecases import agents, identity, people

PAGE = 200

T = TypeVar("T")


class Shopfloor:
    """A floor in this process.

    >>> with Shopfloor(Settings(project=".")) as floor:
    ...     floor.call("factory", "mcp__agent__get_status", {})
    """

    def __init__(
        self, settings: Settings | None = None, *, kind: str = "embedded", only: Principal | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.floor: Floor = build(self.settings, only=only)
        self._kind = kind
        self._open = False

    def __enter__(self) -> Self:
        self.floor.start(self._kind)
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs, and close the store."""
        self.floor.stop()

    def call(self, toolset: str, tool: str, input: Json | None = None, caller: str | None = None) -> Any:
        """The answer of a tool, or its refusal, in the toolset's own shape."""
        return self.answer(toolset, tool, input, caller).body

    def answer(
        self, toolset: str, tool: str, input: Json | None = None, caller: str | None = None, *, door: str = "python"
    ) -> Answer:
        """The same with everything that came with it: the error, the notice, the reference."""
        return self.floor.call(self._call(toolset, tool, input, caller, door))

    async def acall(self, toolset: str, tool: str, input: Json | None = None, caller: str | None = None) -> Any:
        """The same from an event loop."""
        return (await self.floor.acall(self._call(toolset, tool, input, caller, "python"))).body

    def index(self, progress: Callable[[str, int, int], None], *, vectors: bool = True) -> Json:
        """How far the index is, after everything was done that there was to do."""
        return self.floor.indexer.catch_up(progress, vectors=vectors)

    def read_file(self, path: str) -> str:
        """The text of a file of the project, through the path gate; the path may be given whole."""
        files = self.floor.files
        return files.read(files.below(path)).data.decode(errors="replace")

    def write_file(self, path: str, text: str) -> None:
        """Put a text into a file of the project in the same way, whole or not at all."""
        files = self.floor.files
        files.write(files.below(path), text.encode(errors="surrogatepass"))

    def schemas(self, toolset: str, for_model: bool = False) -> list[Json]:
        """The toolset's tools as function-calling models take them."""
        if toolset not in self.floor.toolsets:
            raise InvalidInput(f"There is no toolset '{toolset}'; there are {', '.join(self.floor.toolsets)}")
        return self.floor.schemas(toolset, for_model)

    def _call(self, toolset: str, tool: str, input: Json | None, caller: str | None, door: str) -> Call:
        if toolset not in self.floor.toolsets:
            raise InvalidInput(f"There is no toolset '{toolset}'; there are {', '.join(self.floor.toolsets)}")
        return Call(
            toolset=self.floor.toolsets[toolset],
            name=tool,
            input={} if input is None else input,
            credential=Credential(trusted=OPERATOR),
            door=door,
            claim=caller,
        )

    def hire(
        self, name: str, type: str, supervisor: str | None = None, *, with_token: bool
    ) -> tuple[Agent, str | None]:
        """A new agent, and its token when one is wanted."""

        def hired(work: Work) -> tuple[Agent, str | None]:
            agent = agents.hire(work, name, type, self.floor.agent_types, supervisor)
            return agent, identity.issue_for_agent(work, name)[1] if with_token else None

        return self.floor.administer(hired)

    def agent(self, name: str) -> Agent:
        """One agent, also a retired one."""
        return self.floor.look(lambda work: work.agents.get(name))

    def agents(self) -> Iterator[Agent]:
        """All agents, by name."""
        return _pages(lambda after: self.floor.look(lambda work: work.agents.page(PAGE, after)), lambda a: a.name)

    def retire(self, name: str) -> Agent:
        """The agent, retired."""
        return self.floor.administer(lambda work: agents.retire(work, name))

    def crashed(self, name: str) -> Agent:
        """The agent, whose process has ended without a stop reason; too often, and it pauses as failed."""
        return self.floor.administer(lambda work: agents.crashed(work, name))

    def add_user(self, name: str) -> tuple[Person, str]:
        """A new user, and a token."""

        def added(work: Work) -> tuple[Person, str]:
            return people.add(work, name), self._issue_for_user(work, name, None)[1]

        return self.floor.administer(added)

    def set_password(self, name: str, password: str) -> Person:
        """The user, who signs in with this password from now on."""
        hashed = people.hashed(password)
        return self.floor.administer(lambda work: people.set_password(work, name, hashed))

    def remove_user(self, name: str) -> Person:
        """The user, removed; added again within 30 days, the list is back."""
        return self.floor.administer(lambda work: people.remove(work, name))

    def user(self, name: str) -> Principal:
        """One user, as a principal."""
        return Principal(Kind.USER, self.floor.look(lambda work: work.people.get(name)).name)

    def users(self) -> Iterator[Person]:
        """All users, by name."""
        return _pages(lambda after: self.floor.look(lambda work: work.people.page(PAGE, after)), lambda p: p.name)

    def issue_token(
        self, *, agent: str | None = None, user: str | None = None, lifetime: int | None = None
    ) -> tuple[Token, str]:
        """A new token for an agent or a user, and its text."""

        def issued(work: Work) -> tuple[Token, str]:
            if user is not None:
                return self._issue_for_user(work, user, lifetime)
            expires_at = None if lifetime is None else work.now + lifetime
            return identity.issue_for_agent(work, agent or "", expires_at)

        return self.floor.administer(issued)

    def _issue_for_user(self, work: Work, name: str, lifetime: int | None) -> tuple[Token, str]:
        expires_at = work.now + (lifetime or self.settings.user_token_days * DAY)
        return identity.issue_for_user(work, name, expires_at, self.floor.user_tokens)

    def tokens(self) -> Iterator[Token]:
        """All tokens of agents and users, by id."""
        return _pages(lambda after: self.floor.look(lambda work: work.tokens.page(PAGE, after)), lambda t: t.id)

    def revoke_token(self, id: str) -> Token:
        """The token, revoked."""
        return self.floor.administer(lambda work: identity.revoke(work, id))

    def credential(self, name: str | None) -> Credential:
        """The proof of this process itself that it acts as an agent or a user; without a name, as the operator."""
        if name is None:
            return Credential(trusted=OPERATOR)
        return Credential(trusted=self.floor.look(lambda work: identity.by_name(work, name)))

    @asynccontextmanager
    async def serving(self, port: int | None = None, host: str | None = None) -> AsyncIterator[str]:
        """Serve HTTP inside a host program; gives the URL once it is listening."""
        from shopfloor.transports import server  # noqa: PLC0415 - the doors take longer to load than all the rest

        chosen = self.settings.port if port is None else port
        async with server.embedded(self.floor, host or self.settings.host, chosen) as url:
            yield url


def _pages(page: Callable[[str], list[T]], key: Callable[[T], str]) -> Iterator[T]:
    """All rows of a listing, page by page."""
    after = ""
    while rows := page(after):
        yield from rows
        after = key(rows[-1])
