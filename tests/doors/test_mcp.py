"""MCP over HTTP, spoken by the official client in both eras, and by hand where no client would."""

from __future__ import annotations

import json
import threading
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from tests.doors.server import ERAS, HTTP, PATIENCE, Server, bearer, request, until
from tests.doors.team import (
    FOR_EVERYBODY,
    FOR_USERS,
    LOG_DECISION,
    ORCHESTRATOR_TOOLS,
    STATUS,
    SUPERVISOR_TOOLS,
    WORKER_TOOLS,
    Reply,
    Team,
)
from tests.doors.wire import exchange

PATHS = ("/mcp", "/mcp/factory")
FIXTURES = "mcp__fixture__"
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


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_connects_lists_and_calls(either_team: Team, era: str, path: str):
    async with either_team.server.client(era, either_team.tokens["worker_a"], path) as client:
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else era)
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed == [*WORKER_TOOLS, *(FOR_EVERYBODY if path == "/mcp" else [])]
        status = await client.call_tool(STATUS, {})
        made = await client.call_tool(LOG_DECISION, DECISION)
    for result in (status, made):
        assert result.is_error is False
        assert _told(result)["success"] is True
    assert _told(status)["data"]["id"] == "worker_a"
    number = _told(made)["data"]["logId"].removeprefix("log-")
    kept = either_team.server.rows(f"SELECT decision, subject FROM decision WHERE id = {number}")
    assert kept == [(DECISION["title"], "agent:worker_a")]


def _told(result: types.CallToolResult) -> dict[str, Any]:
    """What a result says, which is the same in its text and in its structured content."""
    [block] = result.content
    assert isinstance(block, types.TextContent)
    assert json.loads(block.text) == result.structured_content
    assert "\n" in block.text
    return dict(result.structured_content or {})


async def test_a_client_of_the_newest_revision_finds_it_by_itself(team: Team):
    async with team.server.client("auto", team.tokens["worker_a"]) as client:
        assert client.protocol_version == "2026-07-28"
        assert "You are the agent 'worker_a'." in (client.instructions or "")
        assert (await client.call_tool(STATUS, {})).is_error is False


async def test_instructions_say_who_the_caller_is(team: Team, open_floor: Server):
    for who in ("worker_a", "supervisor"):
        async with team.server.client("legacy", team.tokens[who]) as client:
            assert (client.instructions or "").startswith(f"You are the agent '{who}'. ")
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.title) == ("shopfloor", "Shopfloor")
    async with open_floor.client("legacy") as client:
        assert (client.instructions or "").startswith("You are the agent 'local'. ")
    discovered = team.server.rpc("server/discover", era="2026-07-28", token=team.tokens["worker_b"]).json()["result"]
    assert discovered["instructions"].startswith("You are the agent 'worker_b'. ")
    assert discovered["cacheScope"] == "private"


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01"])
def test_the_handshake_agrees_on_a_revision(team: Team, version: str):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    headers = {"MCP-Protocol-Version": version} if version > "2000" else {"MCP-Protocol-Version": "2025-11-25"}
    reply = team.server.rpc("initialize", params, token=team.tokens["worker_a"], headers=headers)
    assert reply.json()["result"]["protocolVersion"] == (version if version > "2000" else "2025-11-25")
    assert "mcp-session-id" not in reply.headers


def test_the_list_holds_what_the_caller_may_use_and_stays_in_order(workshop: Team):
    def listed(who: str, era: str) -> list[str]:
        reply = workshop.server.rpc("tools/list", token=workshop.tokens[who], era=era).json()["result"]
        assert era == "legacy" or (reply["cacheScope"], reply["ttlMs"] > 0) == ("private", True)
        return [tool["name"] for tool in reply["tools"]]

    fixtures = ["wait", "hold", "break", "hiccup", "refuse", "echo"]
    everything = [*SUPERVISOR_TOOLS, *(f"{FIXTURES}{name}" for name in fixtures)]
    for era in ERAS:
        assert listed("worker_a", era) == [*WORKER_TOOLS, *FOR_EVERYBODY]
        assert listed("orchestrator", era) == [*ORCHESTRATOR_TOOLS, *FOR_EVERYBODY]
        assert listed("supervisor", era) == [*everything, *FOR_EVERYBODY]
        assert listed("user_a", era) == [*FOR_USERS, *FOR_EVERYBODY]
        assert listed("operator", era) == [*everything, *FOR_USERS, *FOR_EVERYBODY]


def test_a_listed_tool_says_what_it_does_and_takes(team: Team):
    for era in ERAS:
        tools = team.server.rpc("tools/list", token=team.tokens["worker_a"], era=era).json()["result"]["tools"]
        for tool in tools:
            assert tool["description"]
            assert tool["inputSchema"]["type"] == "object"
            assert tool["inputSchema"]["additionalProperties"] is False
            assert not {"$ref", "anyOf", "oneOf", "$defs"} & tool["inputSchema"].keys()
        hints = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in tools}
        assert (hints[STATUS], hints[LOG_DECISION]) == (True, False)


async def test_a_refusal_is_an_error_in_words_never_a_protocol_error(workshop: Team, era: str):
    refused: list[tuple[str, dict[str, Any], str]] = [
        (STATUS, {"x": 1}, "INVALID_INPUT"),
        (LOG_DECISION, {}, "INVALID_INPUT"),
        ("mcp__nope__nope", {}, "TOOL_NOT_FOUND"),
        (f"{FIXTURES}refuse", {}, "PERMISSION_DENIED"),
    ]
    async with workshop.server.client(era, workshop.tokens["worker_a"]) as client:
        for tool, arguments, code in refused:
            result = await client.call_tool(tool, arguments)
            assert result.is_error is True
            assert _told(result)["error"]["code"] == code
    failing: list[tuple[str, dict[str, Any], str]] = [
        (f"{FIXTURES}refuse", {}, "INVALID_AGENT_STATE"),
        (f"{FIXTURES}break", {"text": "x"}, "INTERNAL_ERROR"),
        (f"{FIXTURES}hiccup", {}, "TRANSIENT_ERROR"),
    ]
    async with workshop.server.client(era, workshop.tokens["supervisor"]) as client:
        for tool, arguments, code in failing:
            result = await client.call_tool(tool, arguments)
            assert result.is_error is True
            assert _told(result)["error"]["code"] == code


async def test_a_key_in_meta_gives_the_first_answer_again(either_team: Team, era: str):
    meta: Any = {"shopfloor/idempotencyKey": uuid.uuid4().hex}
    async with either_team.server.client(era, either_team.tokens["worker_a"]) as client:
        first, again = [await client.call_tool(LOG_DECISION, DECISION, meta=meta) for _ in range(2)]
        other = await client.call_tool(LOG_DECISION, {**DECISION, "title": "Other"}, meta=meta)
    assert _told(first)["data"] == _told(again)["data"]
    assert not (first.meta or {}).get("shopfloor/idempotencyReplayed")
    assert (again.meta or {})["shopfloor/idempotencyReplayed"] is True
    assert (other.is_error, _told(other)["error"]["code"]) == (True, "INVALID_INPUT")


@pytest.mark.parametrize("arguments", [[], ["x"], "{}", 5, True], ids=str)
def test_arguments_that_are_no_object_are_refused_by_the_tool_and_logged(either_team: Team, era: str, arguments: Any):
    before = either_team.server.count("decision", f"kind = 'error' AND tool = '{LOG_DECISION}'")
    reply = either_team.ask(era, "worker_a", LOG_DECISION, arguments)
    assert (reply.status, reply.code) == (200, "INVALID_INPUT")
    assert reply.envelope["error"]["message"] == "input must be an object"
    assert either_team.server.count("decision", f"kind = 'error' AND tool = '{LOG_DECISION}'") == before + 1


def test_a_key_in_the_header_counts_as_well(either_team: Team, era: str):
    key = uuid.uuid4().hex

    def sent(key: str, **headers: str) -> Reply:
        return either_team.ask(era, "worker_a", LOG_DECISION, DECISION, key=key or None, headers=headers)

    first, again = [sent("", **{"Idempotency-Key": key}) for _ in range(2)]
    assert (again.data, again.replayed) == (first.data, True)
    assert sent(key, **{"Idempotency-Key": key}).replayed
    assert either_team.ask("execute", "worker_a", LOG_DECISION, DECISION, key=key).replayed
    contradiction = sent(key, **{"Idempotency-Key": "another"})
    assert (contradiction.code, contradiction.result is not None) == ("INVALID_INPUT", True)


async def test_progress_arrives_while_the_call_goes_on(workshop: Team, era: str, tmp_path: Path):
    gate, heard, both = tmp_path / "gate", [], anyio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        gate.touch()
        if len(heard) == 2:
            both.set()

    async with workshop.server.client(era, workshop.tokens["supervisor"]) as client:
        result = await client.call_tool(f"{FIXTURES}hold", {"gate": str(gate)}, progress_callback=note)
        assert _told(result)["data"] == {"gate": str(gate)}
        with anyio.fail_after(PATIENCE):
            await both.wait()
    assert heard == [(1, 2, "holding"), (2, 2, "done")]


def test_only_a_request_with_a_progress_token_becomes_a_stream(workshop: Team, tmp_path: Path):
    gate = tmp_path / "gate"
    gate.touch()
    call = {"name": f"{FIXTURES}hold", "arguments": {"gate": str(gate)}}
    token = workshop.tokens["supervisor"]
    for era in ERAS:
        asked = {**call, "_meta": {"progressToken": "p-1"}}
        plain = workshop.server.rpc("tools/call", call, token=token, era=era)
        stream = workshop.server.rpc("tools/call", asked, token=token, era=era)
        deaf = workshop.server.rpc("tools/call", asked, token=token, era=era, headers={"Accept": "application/json"})
        assert plain.headers["content-type"] == deaf.headers["content-type"] == "application/json"
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: {")]
        told = [event["params"]["progressToken"] for event in events if event.get("method") == "notifications/progress"]
        assert told == ["p-1", "p-1"]
        assert events[-1]["result"]["structuredContent"]["data"] == {"gate": str(gate)}


async def test_what_clients_ask_out_of_habit_is_answered_calmly(team: Team, era: str):
    async with team.server.client(era, team.tokens["worker_a"]) as client:
        assert all(each.name for each in (await client.list_resources()).resources)
        assert all(each.name for each in (await client.list_resource_templates()).resource_templates)
        assert (await client.list_prompts()).prompts == []
        if era == "legacy":
            await client.send_ping()
        with pytest.raises(MCPError):
            await client.read_resource("file:///etc/passwd")
        assert (await client.call_tool(STATUS, {})).is_error is False


@pytest.mark.parametrize("path", PATHS)
def test_a_stray_get_or_delete_is_not_allowed(team: Team, path: str):
    for method in ("GET", "DELETE"):
        reply = HTTP.request(method, f"{team.server.url}{path}", headers=bearer(team.tokens["worker_a"]))
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


def test_late_and_unknown_notifications_are_taken_without_a_word(team: Team):
    for era in ERAS:
        for method in ("notifications/cancelled", "notifications/initialized", "notifications/nope"):
            body, headers = request(method, {"requestId": 99, "reason": "late"}, era=era)
            del body["id"]
            reply = HTTP.post(f"{team.server.url}/mcp", json=body, headers={**headers, **team.headers("worker_a")})
            assert (reply.status_code, reply.content) == (202, b"")


def test_nobody_cancels_the_calls_of_another(workshop: Team):
    """Requests are numbered by their clients, and two clients use the same numbers."""
    server = workshop.server

    def waiting() -> int:
        return server.count("decision", f"process IS NOT NULL AND tool = '{FIXTURES}wait'")

    body, headers = request("tools/call", {"name": f"{FIXTURES}wait", "arguments": {"topic": "log", "seconds": 600}})
    with httpx2.Client(timeout=PATIENCE) as http:
        stream = http.stream(
            "POST", f"{server.url}/mcp", json=body, headers={**headers, **workshop.headers("supervisor")}
        )
        answers: list[Any] = []

        def listen() -> None:
            with stream as response:
                response.read()
                answers.append(response.json())

        thread = threading.Thread(target=listen)
        thread.start()
        until(lambda: waiting() == 1)
        late, its_headers = request("notifications/cancelled", {"requestId": 1})
        del late["id"]
        assert (
            HTTP.post(
                f"{server.url}/mcp", json=late, headers={**its_headers, **workshop.headers("worker_a")}
            ).status_code
            == 202
        )
        assert waiting() == 1
        workshop.execute("worker_a", LOG_DECISION, DECISION)
        thread.join(PATIENCE)
    assert answers[0]["result"]["structuredContent"]["data"] == {"stirred": True}


async def test_a_restart_breaks_no_client(tmp_path: Path, era: str):
    server = Server(tmp_path)
    with server:
        server.stick_to_its_port()
        async with server.client(era) as client:
            await client.call_tool(LOG_DECISION, DECISION)
            server.stop()
            server.start()
            assert (await client.call_tool(STATUS, {})).is_error is False
            assert (await client.list_tools()).tools


def test_credentials_are_asked_for_before_anything_is_read(team: Team):
    for path in PATHS:
        reply = exchange(team.server.address, "POST", path, [("Content-Type", "application/json")], "not even JSON")
        assert reply.status == 401
        assert reply.json["error"]["code"] == -32001
