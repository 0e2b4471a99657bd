"""ACP: how the runner talks to an agent. Nobody else imports the SDK.

Agents differ, so what they send is read leniently: updates come late, in other orders or in kinds that nobody knows,
stop reasons are new, lines are long or no JSON at all. What must not be is named: a line or a turn beyond all bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from acp import PROTOCOL_VERSION, RequestError
from acp.connection import Connection
from acp.schema import (
    ClientCapabilities,
    FileSystemCapabilities,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    InitializeRequest,
    LoadSessionRequest,
    NewSessionRequest,
    PromptRequest,
    ReadTextFileRequest,
    RequestPermissionRequest,
    TextContentBlock,
    WriteTextFileRequest,
)
from pydantic import BaseModel

from shopfloor.errors import AgentFailed, NotFound, Refused
from shopfloor.runner import processes
from shopfloor.runner.processes import Child

LINE_LIMIT = 64 * 1024 * 1024
TURN_LIMIT = 256 * 1024 * 1024
SERVER = "shopfloor"
LAST_WORDS = 30.0
"""Seconds that an agent which has closed its output has to end, before that itself is called its failure."""

_CHUNK = 256 * 1024
_NO_LEAVE = -32000
_NOT_THERE = -32002
"""What the protocol calls a resource that is not found; agents make a new file then."""

_PROMPT = "session/prompt"


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """What an agent asks leave for: the kind of deed, its title, the paths it touches, and the answers it takes."""

    kind: str
    title: str
    paths: tuple[str, ...]
    options: tuple[tuple[str, str], ...]


class Desk(Protocol):
    """Where the agent's requests and news arrive."""

    async def permit(self, asked: PermissionAsked) -> str | None:
        """The id of the chosen option; nothing when the question was dropped."""

    async def read(self, path: str, line: int | None, limit: int | None) -> str:
        """The text of a file."""

    async def write(self, path: str, content: str) -> None:
        """Put a text into a file."""

    def updated(self, session: str, update: dict[str, Any]) -> None:
        """Something happened in a session."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where the agent finds its tools."""

    url: str
    token: str | None

    def server(self) -> HttpMcpServer:
        headers = [HttpHeader(name="Authorization", value=f"Bearer {self.token}")] if self.token else []
        return HttpMcpServer(type="http", name=SERVER, url=self.url, headers=headers)


@dataclass
class Agent:
    """An agent process and the conversation with it."""

    child: Child
    handshake: float
    _lines: Lines
    _connection: Connection
    can_load: bool = False
    name: str = ""

    @property
    def prompted(self) -> asyncio.Event:
        """Set as soon as the prompt of this turn was handed over."""
        return self._lines.prompted

    async def initialize(self) -> None:
        """Agree on the protocol."""
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=False
            ),
            client_info=Implementation(name=SERVER, title="Shopfloor", version="1"),
        )
        answer = await self._ask("initialize", request, self.handshake)
        version = answer.get("protocolVersion")
        if version != PROTOCOL_VERSION:
            raise AgentFailed(f"the agent speaks version {version!r} of the protocol, not {PROTOCOL_VERSION}")
        capabilities = _dict(answer.get("agentCapabilities"))
        self.can_load = capabilities.get("loadSession") is True
        self.name = str(_dict(answer.get("agentInfo")).get("name") or "")

    async def open(self, folder: Path, door: Door) -> str:
        """The id of a new session."""
        request = NewSessionRequest(cwd=str(folder), mcp_servers=[door.server()])
        answer = await self._ask("session/new", request, self.handshake)
        session = answer.get("sessionId")
        if not isinstance(session, str) or not session:
            raise AgentFailed("the agent opened a session without an id")
        return session

    async def load(self, session: str, folder: Path, door: Door) -> bool:
        """Whether the agent remembers the session and goes on with it."""
        request = LoadSessionRequest(session_id=session, cwd=str(folder), mcp_servers=[door.server()])
        try:
            await self._ask("session/load", request, self.handshake)
        except AgentFailed:
            if not self.child.alive or self._lines.ended:
                raise
            return False
        return True

    async def prompt(self, session: str, text: str) -> dict[str, Any]:
        """The agent's answer at the end of its turn."""
        self._lines.begin_turn()
        request = PromptRequest(session_id=session, prompt=[TextContentBlock(type="text", text=text)])
        return await self._ask(_PROMPT, request, None)

    async def cancel(self, session: str) -> None:
        """Ask the agent to end its turn."""
        with contextlib.suppress(ConnectionError, OSError):
            await self._connection.send_notification("session/cancel", {"sessionId": session})

    async def leave(self, grace: float) -> int:
        """Its exit code, after the end of its input, then a signal, then the last one."""
        stdin = self.child.process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError, RuntimeError):
            stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.child.process.wait(), grace)
        code = await self.child.end()
        with contextlib.suppress(TimeoutError, ConnectionError, OSError):
            await asyncio.wait_for(self._connection.close(), 5)
            await asyncio.wait_for(self._lines.exhaust(), 5)
        return code

    async def _ask(self, method: str, request: BaseModel, seconds: float | None) -> dict[str, Any]:
        params = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            answer = await asyncio.wait_for(self._connection.send_request(method, params), seconds)
        except TimeoutError:
            raise AgentFailed(f"the agent did not answer {method} within {seconds:g} s") from None
        except RequestError as error:
            raise AgentFailed(
                "\n".join(filter(None, [f"the agent refused {method}: {error}", _plain(error.data)]))
            ) from None
        except (ConnectionError, OSError):
            raise await self._ended(method) from None
        return _dict(answer)

    async def _ended(self, method: str) -> AgentFailed:
        """Why the conversation ended; the first line is the same when it happens again, the next is the agent's own."""
        if self._lines.trouble is not None:
            return AgentFailed(self._lines.trouble)
        try:
            code = await asyncio.wait_for(self.child.wait(), LAST_WORDS)
        except TimeoutError:
            return AgentFailed(f"the agent closed its output during {method}")
        last = [line[:300] for line in self.child.said.splitlines()[-1:]]
        if code == 127 and method == "initialize":
            return AgentFailed("\n".join(["the agent cannot be started", *last]))
        return AgentFailed("\n".join([f"the agent ended with exit code {code} during {method}", *last]))


async def start(command: Sequence[str], folder: Path, desk: Desk, *, handshake: float, grace: float) -> Agent:
    """The agent, started but not yet greeted."""
    child = await processes.start(command, folder, grace=grace, stdin=asyncio.subprocess.PIPE)
    process = child.process
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    child.drain(process.stderr)
    lines = Lines(process.stdout, process.stdin, desk.updated)
    return Agent(child, handshake, lines, Connection(_answers(desk), lines))


def _answers(desk: Desk) -> Callable[[str, Any, bool], Awaitable[Any]]:
    """The handler of what the agent asks of us."""

    async def handle(method: str, params: Any, is_notification: bool) -> Any:
        if is_notification:
            return None
        match method:
            case "session/request_permission":
                chosen = await desk.permit(_asked(RequestPermissionRequest.model_validate(params)))
                outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
                return {"outcome": outcome}
            case "fs/read_text_file":
                reading = ReadTextFileRequest.model_validate(params)
                return {"content": await _lawful(desk.read(reading.path, reading.line, reading.limit))}
            case "fs/write_text_file":
                writing = WriteTextFileRequest.model_validate(params)
                await _lawful(desk.write(writing.path, writing.content))
                return {}
        raise RequestError.method_not_found(method)

    return handle


async def _lawful(deed: Awaitable[Any]) -> Any:
    try:
        return await deed
    except Refused as error:
        code = _NOT_THERE if isinstance(error, NotFound) else _NO_LEAVE
        raise RequestError(code, error.message, {"hint": error.hint}) from None


def _asked(request: RequestPermissionRequest) -> PermissionAsked:
    call = request.tool_call
    return PermissionAsked(
        kind=call.kind or "other",
        title=call.title or "",
        paths=tuple(location.path for location in call.locations or ()),
        options=tuple((option.option_id, option.kind) for option in request.options),
    )


@dataclass
class Lines:
    """Messages, one a line, over the streams of the agent. News goes straight to the desk, in its order."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    updated: Callable[[str, dict[str, Any]], None]
    trouble: str | None = None
    ended: bool = False
    nonsense: int = 0
    prompted: asyncio.Event = field(default_factory=asyncio.Event)
    _ready: deque[dict[str, Any]] = field(default_factory=deque)
    _parts: list[bytes] = field(default_factory=list)
    _line: int = 0
    _turn: int = 0

    def begin_turn(self) -> None:
        self._turn = 0
        self.prompted.clear()

    async def send(self, message: dict[str, Any]) -> None:
        self.writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self.writer.drain()
        if message.get("method") == _PROMPT:
            self.prompted.set()

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is not news; nothing when the agent has closed its output."""
        while not self._ready:
            chunk = await self.reader.read(_CHUNK)
            if not chunk or self._too_much(len(chunk)):
                self.ended = True
                return None
            self._take(chunk)
            await asyncio.sleep(0)  # a flood must not keep the others from their turn
        return self._ready.popleft()

    async def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.close()

    async def exhaust(self) -> None:
        """Read what is left to its end, and drop it."""
        while await self.reader.read(_CHUNK):
            pass

    def _too_much(self, size: int) -> bool:
        self._turn += size
        if self._line + size > LINE_LIMIT:
            self.trouble = f"the agent sent a line of more than {LINE_LIMIT // 2**20} MiB"
        elif self._turn > TURN_LIMIT:
            self.trouble = f"the agent sent more than {TURN_LIMIT // 2**20} MiB in one turn"
        return self.trouble is not None

    def _take(self, chunk: bytes) -> None:
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            self._message(b"".join([*self._parts, end]))
            self._parts, self._line = [], 0
        if rest:
            self._parts.append(rest)
            self._line += len(rest)

    def _message(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or not isinstance(message.get("id"), str | int | None):
            self.nonsense += 1
        elif message.get("method") == "session/update":
            params = _dict(message.get("params"))
            self.updated(str(params.get("sessionId")), _dict(params.get("update")))
        else:
            self._ready.append(message)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(data: Any) -> str:
    return "" if data is None else json.dumps(data, ensure_ascii=False)[:500]
