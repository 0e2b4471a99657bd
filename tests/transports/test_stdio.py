"""MCP over standard input and output: `shopfloor stdio`, started by its client."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.postgres import PostgresServer
from tests.transports.server import (
    ERAS,
    PATIENCE,
    SHOPFLOOR,
    WITH_FIXTURES,
    Server,
    environment,
    request,
    run,
    serving,
    wait_until,
)
from tests.transports.team import CONTEXT_TOOLS, LOG_DECISION, STATUS, SUPERVISOR_TOOLS, TODO_TOOLS, Team

DECISION = {"title": "Chose a queue", "body": "Because of the load"}

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield request.param


def open_stdio(folder: Path, *options: str, program: tuple[str, ...] = SHOPFLOOR, **settings: Any) -> Any:
    """Return a client transport that starts the server."""
    arguments = [*program, "stdio", *options]
    env = environment(project=folder, **settings)
    errors = (folder / "stderr").open("a")
    return stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env=env, cwd=folder), errors)


async def test_client_starts_the_server_lists_and_calls(tmp_path: Path, era: str):
    async with Client(open_stdio(tmp_path, "--toolset", "factory"), mode=era) as client:
        tools = (await client.list_tools()).tools
        status = await client.call_tool(STATUS, {})
        log_result = await client.call_tool(LOG_DECISION, DECISION)
        rejected = await client.call_tool(LOG_DECISION, {"title": ""})
        assert "plan-epic" in [prompt.name for prompt in (await client.list_prompts()).prompts]
        instructions = client.instructions or ""
        if era == "legacy":
            await client.send_ping()
    assert instructions.startswith("You are the agent 'local'. ") or era != "legacy"
    assert [tool.name for tool in tools] == SUPERVISOR_TOOLS
    assert read_result(status)["data"]["type"] == "SUPERVISOR"
    assert read_result(log_result)["success"] is True
    assert (rejected.is_error, read_result(rejected)["error"]["code"]) == (True, "INVALID_INPUT")


def read_result(result: types.CallToolResult) -> dict[str, Any]:
    [block] = result.content
    assert isinstance(block, types.TextContent)
    assert json.loads(block.text) == result.structured_content
    return dict(result.structured_content or {})


async def test_as_option_chooses_the_principal(team: Team):
    server = team.server
    async with Client(open_stdio(server.folder, "--as", "worker_a"), mode="legacy") as client:
        assert (client.instructions or "").startswith("You are the agent 'worker_a'. ")
        log_result = await client.call_tool(LOG_DECISION, DECISION)
    number = read_result(log_result)["data"]["logId"].removeprefix("log-")
    rows = server.rows(f"SELECT subject, actor FROM decision WHERE id = {number}")
    assert rows == [("agent:worker_a", "agent:worker_a")]
    async with Client(open_stdio(server.folder, "--as", "user_a"), mode="2026-07-28") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*TODO_TOOLS, *CONTEXT_TOOLS]
        assert read_result(await client.call_tool(STATUS, {}))["error"]["code"] == "PERMISSION_DENIED"


@pytest.mark.parametrize("name", ["ghost", "\n"])
def test_unknown_name_is_refused_before_any_output(team: Team, name: str):
    result = team.server.run("stdio", "--as", name)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("shopfloor: ")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("toolset", ["nope", "factory,factory"])
def test_unknown_toolset_is_refused_before_any_output(tmp_path: Path, toolset: str):
    result = run("stdio", "--toolset", toolset, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert "profile" in result.stderr
    assert "Traceback" not in result.stderr


async def test_progress_arrives_while_the_call_runs(tmp_path: Path, era: str):
    gate, reports = tmp_path / "gate", []

    async def record(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))
        gate.touch()

    async with Client(open_stdio(tmp_path, program=WITH_FIXTURES), mode=era) as client:
        await client.call_tool("mcp__fixture__hold", {"gate": str(gate)}, progress_callback=record)
    assert reports[0] == (1, 2, "holding")


def test_invalid_lines_get_an_error_response(tmp_path: Path):
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    handshake = [request("initialize", params)[0], {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    unpaired = request("tools/call", {"name": STATUS, "arguments": {"x": "\ud800"}}, id=3)[0]
    deep = '{"jsonrpc":"2.0","id":"deep","method":"ping","params":{"x":' + '{"x":' * 300 + "1" + "}" * 302
    lines = [
        b"\n",
        b"no JSON\n",
        b"[]\n",
        b"\xff\xfe\n",
        b'{"jsonrpc":"2.0","id":2}\n',
        json.dumps(unpaired).encode() + b"\n",
    ]
    with subprocess.Popen(
        [sys.executable, *SHOPFLOOR, "stdio"],
        env=environment(project=tmp_path),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in handshake))
        process.stdin.write(
            b"".join([*lines, deep.encode() + b"\n", json.dumps(request("ping", id=9)[0]).encode() + b"\n"])
        )
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(8)]
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    rejected = [answer["id"] for answer in answers if "error" in answer]
    assert sorted(rejected, key=str) == [2, 3, None, None, None, "deep"]
    assert {answer["error"]["code"] for answer in answers if "error" in answer} == {-32700}
    assert sorted(answer["id"] for answer in answers if "result" in answer) == [1, 9]


def test_standard_output_has_only_messages(tmp_path: Path):
    """Make the server log debug lines, rejections and a stack trace."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines = [request("initialize", params)[0], {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    for number, (tool, arguments) in enumerate(
        [
            (STATUS, {}),
            (LOG_DECISION, {"title": "\x1b[31m", "body": "line\nline\u2028line"}),
            (LOG_DECISION, {}),
            ("mcp__nope__nope", {}),
            ("mcp__fixture__break", {"text": "x"}),
            ("mcp__fixture__hiccup", {}),
        ],
        2,
    ):
        lines.append(request("tools/call", {"name": tool, "arguments": arguments}, id=number)[0])
    settings = {"project": tmp_path, "log_level": "debug", "log": "pretty", "retry_pause": 0}
    with subprocess.Popen(
        [sys.executable, *WITH_FIXTURES, "stdio"],
        env=environment(**settings),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"not JSON at all\n\n" + b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        process.stdin.flush()
        answers: dict[int, Any] = {}
        while len(answers) < 7:
            message = json.loads(process.stdout.readline())
            if message.get("id") is not None:
                answers[message["id"]] = message
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(PATIENCE) == 0
    assert sorted(answers) == [1, 2, 3, 4, 5, 6, 7]
    assert [answers[id]["result"]["isError"] for id in range(2, 8)] == [False, False, True, True, True, True]


async def test_stdio_and_a_server_wake_each_others_waiting_calls(tmp_path: Path):
    with serving(tmp_path, program=WITH_FIXTURES) as server:
        wait = {"topic": "log", "seconds": 600}

        def decide_when_it_waits() -> None:
            wait_until(lambda: server.count("decision", "process IS NOT NULL") == 1)
            server.call(LOG_DECISION, {"title": "From the server", "body": "b"})

        async with (
            Client(open_stdio(tmp_path, program=WITH_FIXTURES), mode="auto") as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(anyio.to_thread.run_sync, decide_when_it_waits)
            assert read_result(await client.call_tool("mcp__fixture__wait", wait))["data"] == {"notified": True}
            reports = anyio.to_thread.run_sync(lambda: server.call("mcp__fixture__wait", wait).json())
            group.start_soon(_decide_when_it_waits, server, client)
            assert (await reports)["data"] == {"notified": True}
        assert server.count("decision", "kind = 'manual'") == 2
        assert server.count("process", "kind = 'stdio'") == 0


async def _decide_when_it_waits(server: Server, client: Client) -> None:
    await anyio.to_thread.run_sync(lambda: wait_until(lambda: server.count("decision", "process IS NOT NULL") == 1))
    await client.call_tool(LOG_DECISION, DECISION)


async def test_stdio_works_on_postgresql(tmp_path: Path, postgres: PostgresServer):
    async with Client(open_stdio(tmp_path, database=postgres.create_database()), mode="auto") as client:
        assert read_result(await client.call_tool(LOG_DECISION, DECISION))["success"] is True
