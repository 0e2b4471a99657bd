"""Shopfloor: a floor with its doors, for host programs, the command line and the runner."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import types
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any, Self, TypeVar

import uvicorn

from shopfloor.app import Floor, build
from shopfloor.domain.actors import OPERATOR, Agent, Person, Token
from shopfloor.domain.times import DAY
from shopfloor.errors import FloorTaken, InvalidInput, StartRefused, Unauthenticated, UnsafeBind
from shopfloor.repositories.work import Work
from shopfloor.settings import Settings
from shopfloor.toolkit import Answer, Call, Credential, Json
from shopfloor.transports import http
from shopfloor.usecases import agents, identity, people

DRAIN_SECONDS = 5
OPERATOR_TOKEN = "operator.token"  # nosec B105: the name of a file
LOCK = "serve.lock"
PAGE = 200

T = TypeVar("T")


class Shopfloor:
    """A floor in this process.

    >>> with Shopfloor(Settings(project=".")) as floor:
    ...     floor.call("factory", "mcp__agent__get_status", {})
    """

    def __init__(self, settings: Settings | None = None, *, kind: str = "embedded") -> None:
        self.settings = settings or Settings()
        self.floor: Floor = build(self.settings)
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

    def add_user(self, name: str) -> tuple[Person, str]:
        """A new user, and a token."""

        def added(work: Work) -> tuple[Person, str]:
            return people.add(work, name), self._issue_for_user(work, name, None)[1]

        return self.floor.administer(added)

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
        with listening(host or self.settings.host, self.settings.port if port is None else port) as bound:
            server = _Embedded(_config(self.floor))
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            try:
                while not server.started:
                    if serving.done():
                        serving.result()
                        raise StartRefused("The server ended before it was ready")
                    await asyncio.sleep(0.005)
                yield url_of(bound)
            finally:
                self.floor.interrupt()
                server.should_exit = True
                await serving


def _pages(page: Callable[[str], list[T]], key: Callable[[T], str]) -> Iterator[T]:
    """All rows of a listing, page by page."""
    after = ""
    while rows := page(after):
        yield from rows
        after = key(rows[-1])


def serve(settings: Settings, ready: Any) -> None:
    """Serve until a signal: lock, check, migrate, outbox, bind, listen, ready; and back."""
    prepared = settings.data
    prepared.mkdir(mode=0o700, parents=True, exist_ok=True)
    with only_server(settings) as note:
        floor = build(settings)
        try:
            check_bind(floor)
            with listening(settings.host, settings.port) as bound:
                url = url_of(bound)
                note(url)
                operator_token(floor)
                floor.start("serve", url)
                _Announced(_config(floor), floor, lambda: ready(floor, url)).run(sockets=[bound])
        finally:
            floor.stop()


def check_bind(floor: Floor) -> None:
    """A floor that other machines can reach needs credentials first."""
    if not floor.settings.loopback and not floor.identity.needs_credential():
        raise UnsafeBind(
            f"Refusing to listen on {floor.settings.host} without any credential: everybody there could act as the "
            "operator. Issue a token first: shopfloor agent add NAME --type SUPERVISOR"
        )


def operator_token(floor: Floor) -> str:
    """The operator's own token, from its file; made when there is none that works."""
    path = floor.settings.data / OPERATOR_TOKEN
    if path.exists():
        token = path.read_text().strip()
        with contextlib.suppress(Unauthenticated):
            floor.identity.authenticate(Credential(token=token))
            return token
    token = str(floor.administer(identity.issue_for_operator))
    write_private(path, token + "\n")
    return token


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


@contextmanager
def only_server(settings: Settings) -> Iterator[Any]:
    """One server per SQLite data folder; the second one is told where the first one is."""
    if not settings.database_url.startswith("sqlite"):
        yield lambda url: None
        return
    with (settings.data / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FloorTaken(_taken(file, settings)) from None
        yield lambda url: _note(file, url)
        file.truncate(0)


def _taken(file: IO[str], settings: Settings) -> str:
    file.seek(0)
    try:
        first = json.loads(file.read())
        where = f"at {first['url']} (process {first['pid']})"
    except (ValueError, KeyError):
        where = "and is just starting"
    return (
        f"Another server serves {settings.data} already, {where}. Use that one, stop it, or give this one a data "
        "folder of its own with --data"
    )


def _note(file: IO[str], url: str) -> None:
    file.truncate(0)
    file.write(json.dumps({"url": url, "pid": os.getpid()}))
    file.flush()


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that accepts connections already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(2048)
        bound.setblocking(False)
        yield bound
    except OverflowError as error:
        raise StartRefused(f"Cannot listen on {host}:{port}: {error}") from error
    except OSError as error:
        if error.errno not in (98, 48, 13, 99, 49):
            raise
        raise StartRefused(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another port with --port N (0 takes a free one)"
        ) from error
    finally:
        bound.close()


def url_of(bound: socket.socket) -> str:
    """The URL by which this machine reaches the socket."""
    host, port = bound.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # nosec B104
    return f"http://{name}:{port}"


def _config(floor: Floor) -> uvicorn.Config:
    return uvicorn.Config(
        http.application(floor),
        http="httptools",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


class _Embedded(uvicorn.Server):
    """A server inside a host program: the signals stay the host's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Announced(uvicorn.Server):
    """A server of its own: says when it is ready; a first signal stops it, a second one ends it at once."""

    def __init__(self, config: uvicorn.Config, floor: Floor, ready: Any) -> None:
        super().__init__(config)
        self._floor = floor
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: types.FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        self._floor.interrupt()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
