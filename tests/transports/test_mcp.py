"""MCP over HTTP, with the official client in both eras, and by hand for requests that it does not send."""

from __future__ import annotations

import json
import re
import threading
import uuid
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from shopfloor.app import TOOLSETS
from tests.transports.server import ERAS, HTTP, PATIENCE, Server, bearer, request, wait_until
from tests.transports.team import (
    CONTEXT_TOOLS,
    LOG_DECISION,
    ORCHESTRATOR_TOOLS,
    STATUS,
    SUPERVISOR_TOOLS,
    TODO_TOOLS,
    WORKER_TOOLS,
    Reply,
    Team,
)
from tests.transports.wire import send_request

PATHS = ("/mcp", "/mcp/factory")
FIXTURE_PREFIX = "mcp__fixture__"
DECISION = {"title": "Chose a queue", "body": "Because of the load"}

pytestmark = pytest.mark.anyio


WORKER_PROMPTS = ["start-work", "hand-over", "triage-inbox"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield request.param


@pytest.mark.parametrize("path", PATHS)
async def test_client_connects_lists_and_calls(either_team: Team, era: str, path: str):
    async with either_team.server.client(era, either_team.tokens["worker_a"], path) as client:
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else era)
        list_names = [tool.name for tool in (await client.list_tools()).tools]
        assert list_names == [*WORKER_TOOLS, *(CONTEXT_TOOLS if path == "/mcp" else [])]
        status = await client.call_tool(STATUS, {})
        log_result = await client.call_tool(LOG_DECISION, DECISION)
    for result in (status, log_result):
        assert result.is_error is False
        assert read_result(result)["success"] is True
    assert read_result(status)["data"]["id"] == "worker_a"
    number = read_result(log_result)["data"]["logId"].removeprefix("log-")
    rows = either_team.server.rows(f"SELECT decision, subject FROM decision WHERE id = {number}")
    assert rows == [(DECISION["title"], "agent:worker_a")]


def read_result(result: types.CallToolResult) -> dict[str, Any]:
    """Return the structured content of a result, which its text must equal."""
    [block] = result.content
    assert isinstance(block, types.TextContent)
    assert json.loads(block.text) == result.structured_content
    return dict(result.structured_content or {})


async def test_client_discovers_the_newest_revision(team: Team):
    async with team.server.client("auto", team.tokens["worker_a"]) as client:
        assert client.protocol_version == "2026-07-28"
        assert "You are the agent 'worker_a'." in (client.instructions or "")
        assert (await client.call_tool(STATUS, {})).is_error is False


async def test_instructions_name_the_caller(team: Team, open_server: Server):
    for who in ("worker_a", "supervisor"):
        async with team.server.client("legacy", team.tokens[who]) as client:
            assert (client.instructions or "").startswith(f"You are the agent '{who}'. ")
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.title) == ("shopfloor", "Shopfloor")
    async with open_server.client("legacy") as client:
        assert (client.instructions or "").startswith("You are the agent 'local'. ")
    discovered = team.server.rpc("server/discover", era="2026-07-28", token=team.tokens["worker_b"]).json()["result"]
    assert discovered["instructions"].startswith("You are the agent 'worker_b'. ")
    assert discovered["cacheScope"] == "private"


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01"])
def test_handshake_agrees_on_a_revision(team: Team, version: str):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    headers = {"MCP-Protocol-Version": version} if version > "2000" else {"MCP-Protocol-Version": "2025-11-25"}
    reply = team.server.rpc("initialize", params, token=team.tokens["worker_a"], headers=headers)
    assert reply.json()["result"]["protocolVersion"] == (version if version > "2000" else "2025-11-25")
    assert "mcp-session-id" not in reply.headers


def test_tool_list_has_the_allowed_tools_in_a_stable_order(fixture_team: Team):
    def list_names(who: str, era: str) -> list[str]:
        reply = fixture_team.server.rpc("tools/list", token=fixture_team.tokens[who], era=era).json()["result"]
        assert era == "legacy" or (reply["cacheScope"], reply["ttlMs"] > 0) == ("private", True)
        return [tool["name"] for tool in reply["tools"]]

    fixtures = ["wait", "hold", "break", "hiccup", "refuse", "echo"]
    everything = [*SUPERVISOR_TOOLS, *(f"{FIXTURE_PREFIX}{name}" for name in fixtures)]
    for era in ERAS:
        assert list_names("worker_a", era) == [*WORKER_TOOLS, *CONTEXT_TOOLS]
        assert list_names("orchestrator", era) == [*ORCHESTRATOR_TOOLS, *CONTEXT_TOOLS]
        assert list_names("supervisor", era) == [*everything, *CONTEXT_TOOLS]
        assert list_names("user_a", era) == [*TODO_TOOLS, *CONTEXT_TOOLS]
        assert list_names("operator", era) == [*everything, *TODO_TOOLS, *CONTEXT_TOOLS]


def test_listed_tools_have_a_description_and_a_schema(team: Team):
    for era in ERAS:
        tools = team.server.rpc("tools/list", token=team.tokens["worker_a"], era=era).json()["result"]["tools"]
        for tool in tools:
            assert tool["description"]
            assert tool["inputSchema"]["type"] == "object"
            assert tool["inputSchema"]["additionalProperties"] is False
            assert not {"$ref", "anyOf", "oneOf", "$defs"} & tool["inputSchema"].keys()
        hints = {tool["name"]: tool["annotations"].get("readOnlyHint", False) for tool in tools}
        assert (hints[STATUS], hints[LOG_DECISION]) == (True, False)


@pytest.mark.parametrize(("who", "tokens"), [("worker_a", 2_800), ("supervisor", 6_000), ("operator", 6_000)])
def test_tool_list_stays_within_the_published_size(team: Team, who: str, tokens: int):
    tools = team.server.rpc("tools/list", token=team.tokens[who]).json()["result"]["tools"]
    text = json.dumps(tools, separators=(",", ":"), ensure_ascii=False)
    # Four characters count as a token.
    assert len(text) / 4 <= tokens


def test_worker_is_shown_only_the_states_that_it_may_set(team: Team):
    shown = {}
    for who in ("worker_a", "supervisor"):
        tools = team.server.rpc("tools/list", token=team.tokens[who]).json()["result"]["tools"]
        (moving,) = (tool for tool in tools if tool["name"] == "mcp__task__update_status")
        shown[who] = moving["inputSchema"]["properties"]["state"]["enum"]
    assert set(shown["supervisor"]) - set(shown["worker_a"]) == {"ASSIGNED", "COMPLETED"}


def test_tools_have_titles_and_hints_that_mean_something(team: Team):
    tools = team.server.rpc("tools/list", token=team.tokens["worker_a"]).json()["result"]["tools"]
    by_name = {tool["name"]: (tool["title"], tool["annotations"]) for tool in tools}
    assert by_name["mcp__mail__list_inbox"] == ("Mail: list inbox", {"readOnlyHint": True, "openWorldHint": False})
    assert by_name["read_file"][0] == "Read file"
    assert by_name["mcp__mail__acknowledge"][1] == {
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


@pytest.mark.parametrize(("path", "who"), [("/mcp/todo", "worker_a"), ("/mcp/factory", "user_a")])
def test_token_of_another_toolset_is_explained(team: Team, path: str, who: str):
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    result = team.server.rpc("initialize", hello, token=team.tokens[who], path=path).json()["result"]
    assert f"'{who}', which may call no tool of {path.rpartition('/')[2]}" in result["instructions"]


async def test_waiting_call_reports_its_progress(team: Team, era: str):
    reports: list[tuple[float, float | None, str | None]] = []
    first = anyio.Event()

    async def record(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))
        first.set()

    async with team.server.client(era, team.tokens["worker_a"]) as client, anyio.create_task_group() as group:
        wait = partial(client.call_tool, "mcp__mail__wait", {"timeoutSeconds": 50}, progress_callback=record)
        group.start_soon(wait)
        with anyio.fail_after(PATIENCE):
            await first.wait()
        group.cancel_scope.cancel()
    progress, total, message = reports[0]
    assert (message, round(total or 0)) == ("Waiting", 50)
    assert progress >= 0


async def test_rejected_call_is_a_tool_error_and_not_a_protocol_error(fixture_team: Team, era: str):
    rejected: list[tuple[str, dict[str, Any], str]] = [
        (STATUS, {"x": 1}, "INVALID_INPUT"),
        (LOG_DECISION, {}, "INVALID_INPUT"),
        ("mcp__nope__nope", {}, "TOOL_NOT_FOUND"),
        (f"{FIXTURE_PREFIX}refuse", {}, "PERMISSION_DENIED"),
    ]
    async with fixture_team.server.client(era, fixture_team.tokens["worker_a"]) as client:
        for tool, arguments, code in rejected:
            result = await client.call_tool(tool, arguments)
            assert result.is_error is True
            assert read_result(result)["error"]["code"] == code
    failing: list[tuple[str, dict[str, Any], str]] = [
        (f"{FIXTURE_PREFIX}refuse", {}, "INVALID_AGENT_STATE"),
        (f"{FIXTURE_PREFIX}break", {"text": "x"}, "INTERNAL_ERROR"),
        (f"{FIXTURE_PREFIX}hiccup", {}, "TRANSIENT_ERROR"),
    ]
    async with fixture_team.server.client(era, fixture_team.tokens["supervisor"]) as client:
        for tool, arguments, code in failing:
            result = await client.call_tool(tool, arguments)
            assert result.is_error is True
            assert read_result(result)["error"]["code"] == code


async def test_idempotency_key_in_meta_replays_the_first_response(either_team: Team, era: str):
    meta: Any = {"shopfloor/idempotencyKey": uuid.uuid4().hex}
    async with either_team.server.client(era, either_team.tokens["worker_a"]) as client:
        first, again = [await client.call_tool(LOG_DECISION, DECISION, meta=meta) for _ in range(2)]
        other = await client.call_tool(LOG_DECISION, {**DECISION, "title": "Other"}, meta=meta)
    assert read_result(first)["data"] == read_result(again)["data"]
    assert not (first.meta or {}).get("shopfloor/idempotencyReplayed")
    assert (again.meta or {})["shopfloor/idempotencyReplayed"] is True
    assert (other.is_error, read_result(other)["error"]["code"]) == (True, "INVALID_INPUT")


@pytest.mark.parametrize("arguments", [[], ["x"], "{}", 5, True], ids=str)
def test_arguments_must_be_an_object_and_the_rejection_is_logged(either_team: Team, era: str, arguments: Any):
    before = either_team.server.count("decision", f"kind = 'error' AND tool = '{LOG_DECISION}'")
    reply = either_team.ask(era, "worker_a", LOG_DECISION, arguments)
    assert (reply.status, reply.code) == (200, "INVALID_INPUT")
    assert reply.envelope["error"]["message"] == "input must be an object"
    assert either_team.server.count("decision", f"kind = 'error' AND tool = '{LOG_DECISION}'") == before + 1


def test_idempotency_key_in_the_header_works_over_mcp(either_team: Team, era: str):
    key = uuid.uuid4().hex

    def log_decision(key: str, **headers: str) -> Reply:
        return either_team.ask(era, "worker_a", LOG_DECISION, DECISION, key=key or None, headers=headers)

    first, again = [log_decision("", **{"Idempotency-Key": key}) for _ in range(2)]
    assert (again.data, again.replayed) == (first.data, True)
    assert log_decision(key, **{"Idempotency-Key": key}).replayed
    assert either_team.ask("execute", "worker_a", LOG_DECISION, DECISION, key=key).replayed
    contradiction = log_decision(key, **{"Idempotency-Key": "another"})
    assert (contradiction.code, contradiction.result is not None) == ("INVALID_INPUT", True)


async def test_progress_arrives_while_the_call_runs(fixture_team: Team, era: str, tmp_path: Path):
    gate, reports, both = tmp_path / "gate", [], anyio.Event()

    async def record(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))
        gate.touch()
        if len(reports) == 2:
            both.set()

    async with fixture_team.server.client(era, fixture_team.tokens["supervisor"]) as client:
        result = await client.call_tool(f"{FIXTURE_PREFIX}hold", {"gate": str(gate)}, progress_callback=record)
        assert read_result(result)["data"] == {"gate": str(gate)}
        with anyio.fail_after(PATIENCE):
            await both.wait()
    assert reports == [(1, 2, "holding"), (2, 2, "done")]


def test_only_requests_with_a_progress_token_are_streamed(fixture_team: Team, tmp_path: Path):
    gate = tmp_path / "gate"
    gate.touch()
    call = {"name": f"{FIXTURE_PREFIX}hold", "arguments": {"gate": str(gate)}}
    token = fixture_team.tokens["supervisor"]
    for era in ERAS:
        streaming_call = {**call, "_meta": {"progressToken": "p-1"}}
        plain = fixture_team.server.rpc("tools/call", call, token=token, era=era)
        stream = fixture_team.server.rpc("tools/call", streaming_call, token=token, era=era)
        without_streams = fixture_team.server.rpc(
            "tools/call", streaming_call, token=token, era=era, headers={"Accept": "application/json"}
        )
        assert plain.headers["content-type"] == without_streams.headers["content-type"] == "application/json"
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: {")]
        tokens = [
            event["params"]["progressToken"] for event in events if event.get("method") == "notifications/progress"
        ]
        assert tokens == ["p-1", "p-1"]
        assert events[-1]["result"]["structuredContent"]["data"] == {"gate": str(gate)}


async def test_optional_mcp_methods_are_answered(team: Team, era: str):
    async with team.server.client(era, team.tokens["worker_a"]) as client:
        assert all(each.name for each in (await client.list_resources()).resources)
        assert all(each.name for each in (await client.list_resource_templates()).resource_templates)
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == WORKER_PROMPTS
        if era == "legacy":
            await client.send_ping()
        with pytest.raises(MCPError):
            await client.read_resource("file:///etc/passwd")
        assert (await client.call_tool(STATUS, {})).is_error is False


@pytest.mark.parametrize("path", PATHS)
def test_get_and_delete_are_not_allowed(team: Team, path: str):
    for method in ("GET", "DELETE"):
        reply = HTTP.request(method, f"{team.server.url}{path}", headers=bearer(team.tokens["worker_a"]))
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


def test_late_and_unknown_notifications_are_accepted(team: Team):
    for era in ERAS:
        for method in ("notifications/cancelled", "notifications/initialized", "notifications/nope"):
            body, headers = request(method, {"requestId": 99, "reason": "late"}, era=era)
            del body["id"]
            reply = HTTP.post(f"{team.server.url}/mcp", json=body, headers={**headers, **team.headers("worker_a")})
            assert (reply.status_code, reply.content) == (202, b"")


def test_cancelling_does_not_affect_the_calls_of_another_client(fixture_team: Team):
    """Cancel request 1 of one client: clients number their own requests, so another has a request 1 too."""
    server = fixture_team.server

    def count_waiting() -> int:
        return server.count("decision", f"process IS NOT NULL AND tool = '{FIXTURE_PREFIX}wait'")

    body, headers = request(
        "tools/call", {"name": f"{FIXTURE_PREFIX}wait", "arguments": {"topic": "log", "seconds": 600}}
    )
    with httpx2.Client(timeout=PATIENCE) as http:
        stream = http.stream(
            "POST", f"{server.url}/mcp", json=body, headers={**headers, **fixture_team.headers("supervisor")}
        )
        answers: list[Any] = []

        def listen() -> None:
            with stream as response:
                response.read()
                answers.append(response.json())

        thread = threading.Thread(target=listen)
        thread.start()
        wait_until(lambda: count_waiting() == 1)
        late, its_headers = request("notifications/cancelled", {"requestId": 1})
        del late["id"]
        assert (
            HTTP.post(
                f"{server.url}/mcp", json=late, headers={**its_headers, **fixture_team.headers("worker_a")}
            ).status_code
            == 202
        )
        assert count_waiting() == 1
        fixture_team.execute("worker_a", LOG_DECISION, DECISION)
        thread.join(PATIENCE)
    assert answers[0]["result"]["structuredContent"]["data"] == {"notified": True}


async def test_clients_survive_a_restart(tmp_path: Path, era: str):
    server = Server(tmp_path)
    with server:
        server.keep_port()
        async with server.client(era) as client:
            await client.call_tool(LOG_DECISION, DECISION)
            server.stop()
            server.start()
            assert (await client.call_tool(STATUS, {})).is_error is False
            assert (await client.list_tools()).tools


def test_credentials_are_checked_before_the_body_is_parsed(team: Team):
    for path in PATHS:
        reply = send_request(team.server.address, "POST", path, [("Content-Type", "application/json")], "not even JSON")
        assert reply.status == 401
        assert reply.json["error"]["code"] == -32001


async def test_prompt_names_only_tools_of_the_caller(team: Team, era: str):
    for who in ("worker_a", "supervisor"):
        async with team.server.client(era, team.tokens[who]) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            prompts = (await client.list_prompts()).prompts
            texts = [(await client.get_prompt(prompt.name, {})).messages[0].content for prompt in prompts]
        named = {name for text in texts for name in re.findall(r"mcp__\w+", getattr(text, "text", ""))}
        assert prompts
        assert named
        assert named <= tools


async def test_prompt_contains_its_argument(team: Team):
    async with team.server.client("legacy", team.tokens["supervisor"]) as client:
        result = await client.get_prompt("plan-epic", {"goal": "Export to CSV"})
    [message] = result.messages
    assert message.role == "user"
    assert isinstance(message.content, types.TextContent)
    assert "Export to CSV" in message.content.text


async def test_unknown_prompt_and_prompt_of_another_role_are_not_found(team: Team):
    async with team.server.client("legacy", team.tokens["worker_a"]) as client:
        for name in ("nope", "plan-epic"):
            with pytest.raises(MCPError, match="Prompt not found"):
                await client.get_prompt(name, {})


@pytest.mark.parametrize("who", ["worker_a", "supervisor", "user_a"])
async def test_instructions_name_only_tools_of_the_caller(team: Team, who: str):
    async with team.server.client("legacy", team.tokens[who]) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        instructions = client.instructions or ""
    every = {tool for toolset in TOOLSETS.values() for tool in toolset.tools if "_" in tool}
    named = every.intersection(re.findall(r"\w+", instructions))
    assert named
    assert named <= tools


async def test_instructions_of_a_supervisor_name_planning_and_review(team: Team):
    async with team.server.client("legacy", team.tokens["supervisor"]) as client:
        instructions = client.instructions or ""
    # The argument is called state: an unknown one is rejected.
    for words in ("mcp__epic__create", "mcp__task__assign", "mcp__task__list with state REVIEW"):
        assert words in instructions


@pytest.mark.parametrize(("revision", "code"), [("legacy", -32002), ("2026-07-28", -32602)])
async def test_missing_resource_has_the_code_of_the_revision(team: Team, revision: str, code: int):
    async with team.server.client(revision, team.tokens["worker_a"]) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("shopfloor://nope")
    assert caught.value.error.code == code
