"""Talk to an agent over the Agent Client Protocol (ACP). Only this module imports the SDK.

Agents differ, so their messages are parsed leniently: updates may arrive late, out of order or with unknown types, stop
reasons may be new, lines may be very long or not JSON at all. Only two things are errors: a line or a turn over its
limit.
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
from urllib.parse import urlsplit

from acp import PROTOCOL_VERSION, RequestError
from acp.connection import Connection
from acp.schema import (
    ClientCapabilities,
    FileEditToolCallContent,
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
    SetSessionConfigOptionSelectRequest,
    SetSessionModeRequest,
    TextContentBlock,
    WriteTextFileRequest,
)
from pydantic import BaseModel

from shopfloor.errors import AgentFailed, ClientError
from shopfloor.runner import processes
from shopfloor.runner.processes import Child
from shopfloor.runner.session_updates import format_diff, format_raw_input

LINE_LIMIT_BYTES = 64 * 1024 * 1024
TURN_LIMIT_BYTES = 256 * 1024 * 1024
SERVER_NAME = "shopfloor"
EXIT_TIMEOUT = 30.0
"""Seconds that an agent has to exit after closing its output. After that, the closed output itself is the failure."""

EOF_SECONDS = 2.0
"""Seconds that an agent has to exit after the end of its input. Some never do, and only exit on a signal."""

_CHUNK_BYTES = 256 * 1024
_CLOSE_SECONDS = 5.0
_PERMISSION_DENIED = -32000

_PROMPT = "session/prompt"


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """An agent's request for permission: the kind of action, its title, its paths, and the options (id, kind) to choose
    from.

    `details` are the diff or the raw input, formatted for a person. `tool_name` is the agent's own name for the tool.
    """

    kind: str
    title: str
    paths: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    details: str = ""
    tool_name: str | None = None


class AgentHost(Protocol):
    """The side of the conversation that serves the agent's requests and notifications."""

    async def choose_permission(self, request: PermissionRequest) -> str | None:
        """Return the id of the chosen option, or None if the question was dropped."""

    async def read_file(self, path: str, line: int | None, limit: int | None) -> str:
        """Return the text of a file."""

    async def write_file(self, path: str, content: str) -> None:
        """Write the text of a file."""

    def on_update(self, session: str, update: dict[str, Any]) -> None:
        """Handle a notification about a session."""


@dataclass(frozen=True, slots=True)
class McpServerRef:
    """The MCP server that provides the agent's tools."""

    url: str
    token: str | None

    def to_acp(self) -> HttpMcpServer:
        """Convert to the protocol's own type."""
        headers = [HttpHeader(name="Authorization", value=f"Bearer {self.token}")] if self.token else []
        return HttpMcpServer(type="http", name=SERVER_NAME, url=self.url, headers=headers)


@dataclass(frozen=True, slots=True)
class SessionModes:
    """The current mode of a session, and the modes it can be set to."""

    current: str
    available: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionModels:
    """The models a session can be set to: id and name of each.

    `option` is the config option that holds them. Older agents have none, and take session/set_model instead.
    """

    available: tuple[tuple[str, str], ...]
    option: str | None = None


@dataclass
class Agent:
    """An agent process and the conversation with it."""

    child: Child
    handshake_timeout: float
    _transport: LineTransport
    _connection: Connection
    can_load: bool = False
    name: str = ""
    modes: SessionModes | None = None
    """The modes of the most recently opened session, if the agent has any."""
    models: SessionModels | None = None
    """The models of the most recently opened session, if the agent offers any."""

    @property
    def prompted(self) -> asyncio.Event:
        """Set once the prompt of the current turn has been sent."""
        return self._transport.prompted

    async def initialize(self) -> None:
        """Negotiate the protocol version and the capabilities."""
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=False
            ),
            client_info=Implementation(name=SERVER_NAME, title="Shopfloor", version="1"),
        )
        response = await self._request("initialize", request, self.handshake_timeout)
        version = response.get("protocolVersion")
        if version != PROTOCOL_VERSION:
            raise AgentFailed(f"the agent speaks version {version!r} of the protocol, not {PROTOCOL_VERSION}")
        capabilities = _as_dict(response.get("agentCapabilities"))
        self.can_load = capabilities.get("loadSession") is True
        self.name = str(_as_dict(response.get("agentInfo")).get("name") or "")

    async def open_session(self, folder: Path, mcp_server: McpServerRef) -> str:
        """Open a new session and return its id."""
        request = NewSessionRequest(cwd=str(folder), mcp_servers=[mcp_server.to_acp()])
        response = await self._request("session/new", request, self.handshake_timeout)
        session = response.get("sessionId")
        if not isinstance(session, str) or not session:
            raise AgentFailed("the agent opened a session without an id")
        self.modes, self.models = _read_modes(response), _read_models(response)
        return session

    async def load_session(self, session: str, folder: Path, mcp_server: McpServerRef) -> bool:
        """Continue an earlier session; return False if the agent cannot."""
        request = LoadSessionRequest(session_id=session, cwd=str(folder), mcp_servers=[mcp_server.to_acp()])
        try:
            response = await self._request("session/load", request, self.handshake_timeout)
        except AgentFailed:
            # A live agent has only rejected the session, which it may have forgotten: open a new one.
            if not self.child.is_alive or self._transport.ended:
                raise
            return False
        self.modes, self.models = _read_modes(response), _read_models(response)
        return True

    async def set_model(self, session: str, model: str) -> None:
        """Set the model of a session to one that the agent offers."""
        assert self.models is not None
        if self.models.option is not None:
            request = SetSessionConfigOptionSelectRequest(session_id=session, config_id=self.models.option, value=model)
            await self._request("session/set_config_option", request, self.handshake_timeout)
        else:
            # The SDK has dropped this method. Agents that offer models outside their config options support it.
            await self._request("session/set_model", {"sessionId": session, "modelId": model}, self.handshake_timeout)

    async def set_mode(self, session: str, mode: str) -> None:
        """Set the mode of a session."""
        request = SetSessionModeRequest(session_id=session, mode_id=mode)
        await self._request("session/set_mode", request, self.handshake_timeout)

    async def prompt(self, session: str, text: str) -> dict[str, Any]:
        """Send a prompt and return the agent's response at the end of its turn."""
        self._transport.begin_turn()
        request = PromptRequest(session_id=session, prompt=[TextContentBlock(type="text", text=text)])
        return await self._request(_PROMPT, request, None)

    async def cancel_turn(self, session: str) -> None:
        """Ask the agent to end its turn."""
        with contextlib.suppress(ConnectionError, OSError):
            await self._connection.send_notification("session/cancel", {"sessionId": session})

    async def shut_down(self, grace: float) -> int:
        """Close the agent's input, then signal it, then kill it; return its exit code."""
        stdin = self.child.process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError, RuntimeError):
            stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(grace, EOF_SECONDS)):
                await self.child.process.wait()
        # The reaper signals it, and kills it after the grace period.
        code = await self.child.end()
        with contextlib.suppress(TimeoutError, ConnectionError, OSError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._connection.close()
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._transport.discard_rest()
        return code

    async def _request(self, method: str, request: BaseModel | dict[str, Any], seconds: float | None) -> dict[str, Any]:
        params = request
        if isinstance(request, BaseModel):
            params = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            async with asyncio.timeout(seconds):
                response = await self._connection.send_request(method, params)
        except TimeoutError:
            raise AgentFailed(f"the agent did not answer {method} within {seconds:g} s") from None
        except RequestError as error:
            data = "" if error.data is None else json.dumps(error.data, ensure_ascii=False)[:500]
            raise AgentFailed("\n".join(filter(None, [f"the agent rejected {method}: {error}", data]))) from None
        except (ConnectionError, OSError):
            raise await self._explain_disconnect(method) from None
        return _as_dict(response)

    async def _explain_disconnect(self, method: str) -> AgentFailed:
        """Build the error for a lost connection."""
        if self._transport.failure is not None:
            return AgentFailed(self._transport.failure)
        try:
            async with asyncio.timeout(EXIT_TIMEOUT):
                code = await self.child.wait()
        except TimeoutError:
            return AgentFailed(f"the agent closed its output during {method}")
        # The first line must be the same each time, because repeated failures are counted by it. The agent's own words,
        # which vary, come second.
        last_line = [line[:300] for line in self.child.output_tail.splitlines()[-1:]]
        if code == 127 and method == "initialize":
            return AgentFailed("\n".join(["the agent cannot be started", *last_line]))
        return AgentFailed("\n".join([f"the agent ended with exit code {code} during {method}", *last_line]))


async def start_agent(
    command: Sequence[str],
    folder: Path,
    host: AgentHost,
    mcp_server: McpServerRef,
    *,
    handshake_timeout: float,
    grace: float,
) -> Agent:
    """Start an agent process, without the handshake. It can reach the MCP server, even in a sandbox without a
    network."""
    port = urlsplit(mcp_server.url).port
    child = await processes.start_process(command, folder, grace=grace, stdin=asyncio.subprocess.PIPE, port=port)
    process = child.process
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    child.drain(process.stderr)
    transport = LineTransport(process.stdout, process.stdin, host.on_update)
    return Agent(child, handshake_timeout, transport, Connection(_build_handler(host), transport))


def _build_handler(host: AgentHost) -> Callable[[str, Any, bool], Awaitable[Any]]:
    """Build the handler for the agent's requests."""

    async def handle(method: str, params: Any, is_notification: bool) -> Any:
        if is_notification:
            return None
        match method:
            case "session/request_permission":
                chosen = await host.choose_permission(_read_permission_request(params))
                outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
                return {"outcome": outcome}
            case "fs/read_text_file":
                read = ReadTextFileRequest.model_validate(params)
                return {"content": await _with_acp_errors(host.read_file(read.path, read.line, read.limit))}
            case "fs/write_text_file":
                write = WriteTextFileRequest.model_validate(params)
                await _with_acp_errors(host.write_file(write.path, write.content))
                return {}
        raise RequestError.method_not_found(method)

    return handle


def _read_permission_request(params: Any) -> PermissionRequest:
    asked = RequestPermissionRequest.model_validate(params)
    call = asked.tool_call
    diffs = [item for item in call.content or () if isinstance(item, FileEditToolCallContent)]
    paths = [location.path for location in call.locations or ()] + [diff.path for diff in diffs]
    if diffs:
        details = "\n".join(format_diff(diff.path, diff.old_text or "", diff.new_text) for diff in diffs)
    else:
        details = format_raw_input(call.raw_input)
    tool_name = (call.field_meta or {}).get("toolName")
    return PermissionRequest(
        kind=call.kind or "other",
        title=call.title or "",
        paths=tuple(dict.fromkeys(paths)),
        options=tuple((option.option_id, option.kind) for option in asked.options),
        details=details,
        tool_name=tool_name if isinstance(tool_name, str) else None,
    )


async def _with_acp_errors(operation: Awaitable[Any]) -> Any:
    """Await an operation and convert its errors to protocol errors."""
    try:
        return await operation
    except ClientError as error:
        raise RequestError(_PERMISSION_DENIED, error.message, {"hint": error.hint}) from None


@dataclass
class LineTransport:
    """JSON messages, one per line, over the agent's standard streams."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    on_update: Callable[[str, dict[str, Any]], None]
    failure: str | None = None
    ended: bool = False
    invalid_lines: int = 0
    prompted: asyncio.Event = field(default_factory=asyncio.Event)
    _ready: deque[dict[str, Any]] = field(default_factory=deque)
    _parts: list[bytes] = field(default_factory=list)
    _line_bytes: int = 0
    _turn_bytes: int = 0

    def begin_turn(self) -> None:
        """Reset the counters of the turn."""
        self._turn_bytes = 0
        self.prompted.clear()

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message."""
        self.writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self.writer.drain()
        # Only after the write: from here on, the texts in a prompt count as delivered.
        if message.get("method") == _PROMPT:
            self.prompted.set()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message that is not a session update, or None at the end of the agent's output."""
        while not self._ready:
            chunk = await self.reader.read(_CHUNK_BYTES)
            # Counted before the chunk is split: a line of any length arrives in chunks, and must not fill memory.
            self._turn_bytes += len(chunk)
            if self._line_bytes + len(chunk) > LINE_LIMIT_BYTES:
                self.failure = f"the agent sent a line of more than {LINE_LIMIT_BYTES // 2**20} MiB"
            elif self._turn_bytes > TURN_LIMIT_BYTES:
                self.failure = f"the agent sent more than {TURN_LIMIT_BYTES // 2**20} MiB in one turn"
            if not chunk or self.failure is not None:
                self.ended = True
                return None
            *line_ends, rest = chunk.split(b"\n")
            for end in line_ends:
                self._handle_line(b"".join([*self._parts, end]))
                self._parts, self._line_bytes = [], 0
            # Join the parts once per line: appending to a bytes object is quadratic in the length of the line.
            if rest:
                self._parts.append(rest)
                self._line_bytes += len(rest)
            # A flood of lines must not starve the other tasks.
            await asyncio.sleep(0)
        return self._ready.popleft()

    async def close(self) -> None:
        """Close the agent's input."""
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.close()

    async def discard_rest(self) -> None:
        """Read and discard the rest of the agent's output."""
        while await self.reader.read(_CHUNK_BYTES):
            pass

    def _handle_line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        # Some agents write lines that are not JSON. Count and skip them.
        if not isinstance(message, dict) or not isinstance(message.get("id"), str | int | None):
            self.invalid_lines += 1
        elif message.get("method") == "session/update":
            # Bypass the SDK: it runs handlers concurrently, which would lose the order of updates.
            params = _as_dict(message.get("params"))
            self.on_update(str(params.get("sessionId")), _as_dict(params.get("update")))
        else:
            self._ready.append(message)


def _read_modes(response: dict[str, Any]) -> SessionModes | None:
    modes = _as_dict(response.get("modes"))
    listed = modes.get("availableModes")
    available = [_as_dict(mode).get("id") for mode in listed] if isinstance(listed, list) else []
    if not isinstance(modes.get("currentModeId"), str):
        return None
    return SessionModes(modes["currentModeId"], tuple(id for id in available if isinstance(id, str)))


def _read_models(response: dict[str, Any]) -> SessionModels | None:
    """Read the models from a session's config options, or from the field that older agents use."""
    for option in _list_dicts(response.get("configOptions")):
        if option.get("category") == "model" and isinstance(option.get("id"), str):
            listed = _list_dicts(option.get("options"))
            # Options may be grouped.
            choices = [choice for each in listed for choice in _list_dicts(each.get("options")) or [each]]
            return SessionModels(_read_choices(choices, "value"), option["id"])
    listed = _list_dicts(_as_dict(response.get("models")).get("availableModels"))
    return SessionModels(_read_choices(listed, "modelId")) if listed else None


def _read_choices(choices: list[dict[str, Any]], key: str) -> tuple[tuple[str, str], ...]:
    return tuple((each[key], str(each.get("name") or "")) for each in choices if isinstance(each.get(key), str))


def _list_dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
