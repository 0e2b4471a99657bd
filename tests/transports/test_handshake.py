"""The first answer over stdio, which is given before the MCP SDK is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.transports import handshake, mcp_server

CLIENT = {"name": "test", "version": "1"}
PARAMS = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}

ORDINARY = {
    **{f"revision {each}": {"protocolVersion": each} for each in (*handshake.REVISIONS, "2026-07-28", "nonsense", "")},
    "roots": {"capabilities": {"roots": {"listChanged": True}, "sampling": {}}},
    "elicitation": {"capabilities": {"elicitation": {"form": {}, "url": {}}}},
    "experimental": {"capabilities": {"experimental": {"channel": {}}}},
    "tasks": {"capabilities": {"tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}}}},
    "unknown capability": {"capabilities": {"telepathy": {}}},
    "title": {"clientInfo": CLIENT | {"title": "Test", "websiteUrl": "https://example.org"}},
}
LEFT_TO_THE_SDK = {
    "no revision": {"protocolVersion": None},
    "capabilities of another type": {"capabilities": []},
    "capability of another type": {"capabilities": {"sampling": True}},
    "flag of another type": {"capabilities": {"roots": {"listChanged": {}}}},
    "client without a version": {"clientInfo": {"name": "test"}},
    "name of another type": {"clientInfo": {"name": 1, "version": "1"}},
    "icons": {"clientInfo": CLIENT | {"icons": [{"src": "https://example.org/icon.png"}]}},
    "metadata": {"_meta": {"progressToken": 1}},
}

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shopfloor(tmp_path: Path) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path)) as shopfloor:
        yield shopfloor


def answer(shopfloor: Shopfloor, request: Any) -> Any:
    engine = shopfloor.engine
    actor = engine.identity.authenticate(shopfloor.get_credential(None))
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    return handshake.answer_initialize(line, lambda: handshake.write_instructions(actor, engine.profile))


async def ask_sdk(shopfloor: Shopfloor, request: Any) -> Any:
    """Return the response of the SDK's server."""
    engine = shopfloor.engine
    server = mcp_server.build_server(engine, engine.profile, "stdio", shopfloor.get_credential(None))
    send, received = anyio.create_memory_object_stream[Any](1)
    sent, receive = anyio.create_memory_object_stream[Any](1)
    async with anyio.create_task_group() as group:
        group.start_soon(server.run, received, sent, server.create_initialization_options())
        await send.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(request)))
        response = await receive.receive()
        await send.aclose()
    return response.message.model_dump(mode="json", by_alias=True, exclude_unset=True)


@pytest.mark.parametrize("params", ORDINARY.values(), ids=ORDINARY)
async def test_the_answer_is_that_of_the_sdk(shopfloor: Shopfloor, params: dict[str, Any]):
    request = REQUEST | {"params": PARAMS | params}
    assert answer(shopfloor, request) == await ask_sdk(shopfloor, request)


META = "io.modelcontextprotocol/"
ENVELOPE = {f"{META}protocolVersion": "2026-07-28", f"{META}clientInfo": CLIENT, f"{META}clientCapabilities": {}}
DISCOVER = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": ENVELOPE}}


def discover(shopfloor: Shopfloor, request: Any) -> Any:
    actor = shopfloor.engine.identity.authenticate(shopfloor.get_credential(None))
    text = handshake.write_instructions(actor, shopfloor.engine.profile)
    return handshake.answer_discover(json.dumps(request).encode(), lambda: text)


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}, "roots": {}, "sampling": {}, "extensions": {}}])
async def test_discovery_is_answered_as_the_sdk_does(shopfloor: Shopfloor, capabilities: dict[str, Any]):
    request = DISCOVER | {"params": {"_meta": ENVELOPE | {f"{META}clientCapabilities": capabilities}}}
    assert discover(shopfloor, request) == await ask_sdk(shopfloor, request)


@pytest.mark.parametrize(
    "change",
    [
        {f"{META}protocolVersion": "2099-01-01"},
        {f"{META}clientInfo": {"name": "test"}},
        {f"{META}clientCapabilities": []},
        {"progressToken": 1},
    ],
)
def test_other_discovery_requests_are_left_to_the_sdk(shopfloor: Shopfloor, change: dict[str, Any]):
    assert discover(shopfloor, DISCOVER | {"params": {"_meta": ENVELOPE | change}}) is None


@pytest.mark.parametrize(
    ("request_", "expected"),
    [(REQUEST, "protocolVersion"), (DISCOVER | {"method": "tools/list"}, "tools")],
    ids=["handshake", "stateless"],
)
def test_client_may_choose_either_revision_after_discovery(tmp_path: Path, request_: dict[str, Any], expected: str):
    """goose sends `initialize` when it has waited too long for the answer to `server/discover`."""
    lines = "".join(json.dumps(each) + "\n" for each in (DISCOVER, request_ | {"id": 2}))
    done = subprocess.run(
        [sys.executable, "-m", "shopfloor", "stdio", "--project", str(tmp_path)],
        input=lines,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    discovered, chosen = (json.loads(line) for line in done.stdout.splitlines())
    assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
    assert expected in chosen["result"]


async def test_an_id_may_be_text(shopfloor: Shopfloor):
    request = REQUEST | {"id": "a\N{SNOWMAN}"}
    assert answer(shopfloor, request) == await ask_sdk(shopfloor, request)


@pytest.mark.parametrize("params", LEFT_TO_THE_SDK.values(), ids=LEFT_TO_THE_SDK)
async def test_any_other_request_is_left_to_the_sdk(shopfloor: Shopfloor, params: dict[str, Any]):
    assert answer(shopfloor, REQUEST | {"params": PARAMS | params}) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{",
        b"[]",
        b'"initialize"',
        b"\xff\n",
        b"[" * 100_000,
        json.dumps(REQUEST | {"id": True}).encode(),
        json.dumps(REQUEST | {"id": None}).encode(),
        json.dumps(REQUEST | {"method": "ping"}).encode(),
        json.dumps(REQUEST | {"jsonrpc": "1.0"}).encode(),
        json.dumps(REQUEST | {"extra": 1}).encode(),
    ],
    ids=range(12),
)
async def test_any_other_line_is_left_to_the_sdk(shopfloor: Shopfloor, line: bytes):
    assert answer(shopfloor, line) is None


def test_the_command_does_not_import_the_sdk_before_its_first_answer():
    code = "import sys, shopfloor.cli.stdio; print(sorted({'mcp', 'mcp_types', 'starlette'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
