"""The attack cases against transports and the pipeline; those about starts, kills and stops are in other files."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import jwt
import pytest

from shopfloor.toolsets.factory.permissions import ADDITIONS
from tests.transports import attacks
from tests.transports.attacks import attack
from tests.transports.server import ERAS, HTTP, Server, processor_seconds, request, resident_bytes, serving, wait_until
from tests.transports.team import LOG_DECISION, STATUS, TRANSPORTS, TYPES, Reply, Team
from tests.transports.wire import send_request

MAX_BODY_BYTES = 1024 * 1024


def test_every_attack_case_has_a_test():
    assert len(attacks.CASES) == sum(len(file["cases"]) for file in attacks.FILES) == 41
    assert attacks.find_tested() == attacks.CASES.keys()


@contextmanager
def check_not_stored(team: Team) -> Iterator[dict[str, str]]:
    """Give a decision, and check afterwards that it is not in the store."""
    marker = uuid.uuid4().hex
    yield {"title": marker, "body": marker}
    assert team.server.count("decision", f"decision LIKE '%{marker}%' OR context LIKE '%{marker}%'") == 0


@attack("TRN-01")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_foreign_origin_is_rejected(either_team: Team, transport: str):
    with check_not_stored(either_team) as decision:
        reply = either_team.ask(
            transport, "worker_a", LOG_DECISION, decision, headers={"Origin": "https://evil.example"}
        )
    assert reply.status == 403


@attack("TRN-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_unknown_host_is_rejected(either_team: Team, transport: str):
    server = either_team.server
    with check_not_stored(either_team) as decision:
        body, headers = _build_call(transport, LOG_DECISION, decision)
        request_headers = {
            **headers,
            **either_team.headers("worker_a"),
            "Host": f"attacker.example:{server.address[1]}",
        }
        reply = send_request(
            server.address, "POST", _get_path(transport), request_headers.items(), json.dumps(body), host=False
        )
    assert reply.status in (421, 403)


@attack("TRN-05")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_only_json_is_accepted(either_team: Team, transport: str, kind: str):
    with check_not_stored(either_team) as decision:
        reply = either_team.ask(transport, "worker_a", LOG_DECISION, decision, headers={"Content-Type": kind})
    assert reply.status == 415


@attack("TRN-06")
def test_tool_name_in_the_header_must_match_the_body(either_team: Team):
    with check_not_stored(either_team) as decision:
        reply = either_team.ask("2026-07-28", "worker_a", LOG_DECISION, decision, headers={"Mcp-Name": STATUS})
    assert (reply.status, reply.response.json()["error"]["code"]) == (400, -32020)


@attack("TRN-06")
@pytest.mark.parametrize("version", ["2025-11-25", "2025-03-26", ""])
def test_revision_in_the_header_must_match_the_body(either_team: Team, version: str):
    with check_not_stored(either_team) as decision:
        headers = {"Mcp-Protocol-Version": version, "Mcp-Name": STATUS}
        reply = either_team.ask("2026-07-28", "worker_a", LOG_DECISION, decision, headers=headers)
    assert (reply.status, reply.response.json()["error"]["code"]) == (400, -32020)


@attack("TRN-07")
def test_unsupported_protocol_version_lists_the_supported_ones(team: Team):
    reply = team.server.rpc("tools/list", era="2099-01-01", token=team.tokens["worker_a"])
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (400, -32022)
    assert "2026-07-28" in error["data"]["supported"]


@attack("AUT-01")
@pytest.mark.parametrize("claim", ["supervisor", "worker_b", "local", "operator", "user_a", "agent:worker_a", "ghost"])
def test_agent_id_in_the_body_is_not_a_credential(either_team: Team, claim: str):
    with check_only_denied_call_logged(either_team) as decision:
        reply = either_team.ask("execute", "worker_a", LOG_DECISION, decision, agentId=claim)
        assert (reply.status, reply.code) == (403, "PERMISSION_DENIED")


@contextmanager
def check_only_denied_call_logged(team: Team) -> Iterator[dict[str, str]]:
    """Give a decision, and check afterwards that only a rejected call of worker_a is in the log."""
    marker = uuid.uuid4().hex
    yield {"title": marker, "body": marker}
    server = team.server
    calls = server.rows(f"SELECT actor, subject, reference FROM decision WHERE context LIKE '%{marker}%'")
    assert [(actor, subject) for actor, subject, _ in calls] == [("agent:worker_a", "agent:worker_a")]
    outcome = server.rows(f"SELECT kind, code FROM decision WHERE reference = {calls[0][2]} ORDER BY id")
    assert outcome == [("invocation", None), ("error", "PERMISSION_DENIED")]


@attack("AUT-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_calls_need_a_token_once_a_token_exists(either_team: Team, transport: str):
    with check_not_stored(either_team) as decision:
        reply = either_team.ask(transport, None, LOG_DECISION, decision)
    assert reply.status == 401
    assert reply.response.headers["www-authenticate"] == 'Bearer realm="shopfloor"'


@attack("AUT-03")
@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "HS256"])
def test_unsigned_jwt_is_rejected(either_team: Team, algorithm: str):
    _, payload, _ = either_team.tokens["user_a"].split(".")
    header = jwt.utils.base64url_encode(json.dumps({"alg": algorithm, "typ": "JWT"}).encode()).decode()
    assert _collect_statuses(either_team, f"{header}.{payload}.") == {401}


@attack("AUT-04")
@pytest.mark.parametrize("audience", ["another-service", "shopfloor2", "SHOPFLOOR", "", ["another"], None])
def test_token_for_another_audience_is_rejected(either_team: Team, audience: object):
    claims = jwt.decode(either_team.tokens["user_a"], options={"verify_signature": False})
    forged = jwt.encode({**claims, "aud": audience}, read_signing_key(either_team.server), algorithm="HS256")
    assert _collect_statuses(either_team, forged) == {401}
    assert _collect_statuses(either_team, jwt.encode(claims, read_signing_key(either_team.server))) == {200}


def read_signing_key(server: Server) -> bytes:
    """Read the signing key of the server."""
    # The first workspace: other tests of this server add one with a key of its own.
    (key,), *_ = server.rows("SELECT value FROM secret WHERE name = 'user-tokens' ORDER BY workspace")
    return bytes(key)


def _collect_statuses(team: Team, token: str) -> set[int]:
    """Return the statuses that MCP and the metrics page give a token. A user has no tool of /mcp/execute."""
    listed = {team.server.rpc("tools/list", token=token, era=era).status_code for era in ERAS}
    called = team.server.call(STATUS, token=token).status_code
    assert called == 401 or 401 not in listed
    metrics = HTTP.get(f"{team.server.url}/metrics", headers={"Authorization": f"Bearer {token}"})
    return listed | {metrics.status_code}


@attack("AUT-05")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_revoked_token_stops_working_immediately(either_team: Team, transport: str):
    issued = either_team.server.cli("token", "issue", "--agent", "worker_b")
    assert either_team.ask(transport, issued["token"], STATUS).status == 200
    either_team.server.cli("token", "revoke", issued["id"])
    revoked = time.monotonic()
    statuses = [either_team.ask(transport, issued["token"], STATUS).status]
    while statuses[-1] == 200 and time.monotonic() < revoked + 1:
        statuses.append(either_team.ask(transport, issued["token"], STATUS).status)
    assert statuses[-1] == 401
    assert either_team.server.database is not None or statuses == [401]


CONTRACT_PERMISSIONS = {
    "SUPERVISOR": (["*"], []),
    "ORCHESTRATOR": (
        ["mcp__mail__*", "mcp__agent__*", "mcp__system__*", "mcp__task__*", "mcp__epic__*"],
        ["mcp__supervisor__*"],
    ),
    "WORKER": (
        [
            "mcp__mail__*",
            "mcp__agent__get_status",
            "mcp__agent__get_task",
            "mcp__agent__get_epic",
            "mcp__system__log_decision",
            "mcp__task__update_status",
            "mcp__task__add_comment",
        ],
        ["mcp__supervisor__*", "mcp__orchestrator__*", "mcp__epic__*", "mcp__task__create", "mcp__task__assign"],
    ),
}
"""The permission table of the factory contract."""


@attack("PRM-01")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("who", ["supervisor", "orchestrator", "worker_a"])
def test_agent_types_can_only_call_their_allowed_tools(fixture_team: Team, who: str, transport: str):
    tools = {row["name"] for row in fixture_team.server.cli("tools", "factory")}
    allow, deny = CONTRACT_PERMISSIONS[TYPES[who]]
    outcomes = {}
    for tool in tools:
        reply = fixture_team.ask(transport, who, tool, {"unknown": 1})
        outcomes[tool] = (reply.code, reply.envelope["error"]["message"])
    for tool, (code, message) in outcomes.items():
        allowed = any(fnmatchcase(tool, one) for one in [*allow, *ADDITIONS.get(TYPES[who], [])])
        if allowed and not any(fnmatchcase(tool, one) for one in deny):
            assert code == "INVALID_INPUT", tool
        else:
            assert code == "PERMISSION_DENIED", tool
            assert message == f"Tool '{tool}' is not allowed for agent type '{TYPES[who]}'"
    denied = [tool for tool, (code, _) in outcomes.items() if code == "PERMISSION_DENIED"]
    assert bool(denied) == (who != "supervisor")


@attack("PRM-02")
def test_unknown_agent_and_unknown_tool_have_different_error_codes(either_team: Team):
    ghost = either_team.ask("execute", "operator", STATUS, agentId="ghost")
    nope = either_team.ask("execute", "worker_a", "mcp__nope__nope", agentId="worker_a")
    assert (ghost.status, ghost.code) == (404, "AGENT_NOT_FOUND")
    assert (nope.status, nope.code) == (404, "TOOL_NOT_FOUND")
    for era in ERAS:
        over_mcp = either_team.ask(era, "worker_a", "mcp__nope__nope")
        assert (over_mcp.status, over_mcp.code) == (200, "TOOL_NOT_FOUND")


SQL_TEXTS = [
    "' OR 1=1 --",
    "'); DROP TABLE decision;--",
    "%27",
    '"; SELECT pg_sleep(9); --',
    ":title",
    "%(x)s $1 ?",
    "\\",
    "﷽'",
]


@attack("INJ-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_sql_in_arguments_is_stored_as_text(either_team: Team, transport: str):
    server = either_team.server
    agents = server.count("agent")
    for text in SQL_TEXTS:
        reply = either_team.ask(transport, "worker_a", LOG_DECISION, {"title": text, "body": text})
        number = reply.data["logId"].removeprefix("log-")
        rows = server.rows(f"SELECT decision, reasoning, subject FROM decision WHERE id = {number}")
        assert rows == [(text, text, "agent:worker_a")]
    for text in SQL_TEXTS:
        assert either_team.ask(transport, "worker_a", STATUS, {text: text}).code == "INVALID_INPUT"
        key = {"idempotencyKey" if transport == "execute" else "key": f"{transport}{text}"}
        assert either_team.ask(transport, "worker_a", LOG_DECISION, {"title": "t", "body": "b"}, **key).code is None
    assert server.count("agent") == agents


@attack("INJ-02")
def test_sql_in_tool_and_agent_names_is_not_executed(either_team: Team):
    for name in [*SQL_TEXTS, "a\0b"]:
        assert either_team.ask("execute", "worker_a", name).code == "TOOL_NOT_FOUND"
        assert either_team.ask("execute", "worker_a", STATUS, agentId=name).code == "PERMISSION_DENIED"
        assert either_team.ask("execute", "operator", STATUS, agentId=name).status in (404, 422)


@pytest.mark.parametrize("text", [*SQL_TEXTS, "a\0b", "\u202e", ""])
def test_hostile_text_causes_no_internal_error_in_any_tool(either_team: Team, text: str):
    values = {"string": text, "integer": 1, "boolean": True, "array": [text], "object": {text: text}, "number": 1.5}
    listed = either_team.server.rpc("tools/list", token=either_team.tokens["supervisor"]).json()["result"]["tools"]
    for tool in (tool for tool in listed if tool["name"].startswith("mcp__")):
        properties = tool["inputSchema"]["properties"]
        filled = {name: values[schema.get("type", "string")] for name, schema in properties.items()}
        filled |= {"timeoutSeconds": 0} if "timeoutSeconds" in filled else {}  # do not wait
        for transport in TRANSPORTS:
            reply = either_team.ask(transport, "supervisor", tool["name"], filled)
            assert reply.code not in ("INTERNAL_ERROR", "TRANSIENT_ERROR")
            assert reply.status < 500


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("field", ["title", "body"])
def test_text_that_cannot_be_stored_is_rejected(either_team: Team, transport: str, field: str):
    with check_only_rejected_call_logged(either_team, "INVALID_INPUT") as marker:
        decision = {"title": marker, "body": "b"} | {field: f"{marker}\0"}
        reply = either_team.ask(transport, "worker_a", LOG_DECISION, decision)
        assert (reply.code, reply.status) == ("INVALID_INPUT", 422 if transport == "execute" else 200)


@contextmanager
def check_only_rejected_call_logged(team: Team, code: str) -> Iterator[str]:
    """Give a marker, and check afterwards that it is only in the rows of a call rejected with this code."""
    marker = uuid.uuid4().hex
    yield marker
    [(reference,)] = team.server.rows(f"SELECT reference FROM decision WHERE context LIKE '%{marker}%'")
    kinds = team.server.rows(f"SELECT kind, code FROM decision WHERE reference = {reference} ORDER BY id")
    assert kinds == [("invocation", None), ("error", code)]


UNKNOWN_FIELDS = [
    {"id": 1},
    {"logId": "log-1"},
    {"createdAt": "2020-01-01"},
    {"created_at": 0},
    {"subject": "agent:supervisor"},
    {"actor": "operator:operator"},
    {"agentId": "supervisor"},
    {"user_id": "user_a"},
    {"workspace": 2},
    {"kind": "result"},
    {"Title": "other"},
    {"__proto__": {"title": "x"}},
]


@attack("VAL-03")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("unknown_field", UNKNOWN_FIELDS, ids=lambda field: next(iter(field)))
def test_unknown_fields_do_not_reach_the_store(team: Team, transport: str, unknown_field: dict[str, object]):
    with check_only_rejected_call_logged(team, "INVALID_INPUT") as marker:
        reply = team.ask(transport, "worker_a", LOG_DECISION, {"title": marker, "body": "b", **unknown_field})
        assert reply.code == "INVALID_INPUT"
        assert reply.envelope["error"]["details"]["field"] == next(iter(unknown_field))


@attack("LIM-01")
def test_rate_limits_apply_per_caller_and_tool(tmp_path: Path):
    with serving(tmp_path, rate_limits={STATUS: 5}) as server:
        team = Team(server, {"worker_a": server.agent("worker_a"), "worker_b": server.agent("worker_b")})
        within = [team.ask(transport, "worker_a", STATUS).code for transport in ("execute", *ERAS, "execute", "legacy")]
        over = {transport: team.ask(transport, "worker_a", STATUS) for transport in TRANSPORTS}
        assert within == [None] * 5
        for transport, reply in over.items():
            assert (reply.status, reply.code) == (429 if transport == "execute" else 200, "RATE_LIMITED")
            wait = int(reply.response.headers["retry-after"])
            assert 1 <= wait <= 60
            assert reply.envelope["error"]["details"]["seconds"] == wait
            assert reply.envelope["error"]["message"] == f"Rate limit exceeded for {STATUS}; try again in {wait} s."
        assert team.ask("execute", "worker_b", STATUS).code is None
        assert team.ask("execute", "worker_a", LOG_DECISION, {"title": "t", "body": "b"}).code is None
        assert _read_limit_rows(server) == [("agent:worker_a", 3)]


CALLS_PER_MINUTE = {
    "context_search": (30, {"query": "how a queue is chosen"}),
    "read_file": (100, {"path": "queue.py"}),
    "grep_codebase": (60, {"pattern": "queue"}),
}


@attack("LIM-01")
def test_the_context_toolset_has_the_limits_of_its_contract(tmp_path: Path):
    (tmp_path / "queue.py").write_text("def queue():\n    return []\n")
    with serving(tmp_path, embeddings="off") as server:
        team = Team(server, {"worker_a": server.agent("worker_a"), "worker_b": server.agent("worker_b")})
        wait_until(
            lambda: (
                team.ask("execute", "worker_b", "context_search", CALLS_PER_MINUTE["context_search"][1]).code is None
            )
        )

        def use_up_limit(tool: str) -> tuple[list[str | None], Reply]:
            allowed, input = CALLS_PER_MINUTE[tool]
            within = [team.ask("execute", "worker_a", tool, input).code for _ in range(allowed)]
            return within, team.ask("execute", "worker_a", tool, input)

        with ThreadPoolExecutor(len(CALLS_PER_MINUTE)) as executor:
            used = list(zip(CALLS_PER_MINUTE, executor.map(use_up_limit, CALLS_PER_MINUTE), strict=True))
        for tool, (within, over) in used:
            assert within == [None] * CALLS_PER_MINUTE[tool][0], tool
            assert (over.status, over.code) == (429, "RATE_LIMITED")
            assert 1 <= int(over.response.headers["retry-after"]) <= 60
            assert team.ask("execute", "worker_b", tool, CALLS_PER_MINUTE[tool][1]).code is None


def _read_limit_rows(server: Server) -> list[tuple[object, ...]]:
    """Read the rate limit rows of the log: one per caller, tool and window."""
    return server.rows("SELECT subject, count FROM decision WHERE kind = 'limited'")


@attack("LIM-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_oversized_body_is_rejected_without_using_memory(team: Team, transport: str):
    server = team.server
    body, headers = _build_call(transport, LOG_DECISION, {"title": "t", "body": "x"})
    request_headers = {**headers, **team.headers("worker_a")}
    fitting = json.dumps(body).encode().replace(b'"x"', b'"' + b"x" * 60_000 + b'"')
    padded = fitting + b" " * (MAX_BODY_BYTES - len(fitting))
    assert _post(server, transport, request_headers, padded) == 200
    before = resident_bytes(server.pid)
    for _ in range(8):
        assert _post(server, transport, request_headers, padded + b" ") == 413
        assert _post(server, transport, request_headers, iter([padded, b" "])) == 413
    assert resident_bytes(server.pid) - before < 8_000_000


def _post(server: Server, transport: str, headers: dict[str, str], body: bytes | Iterator[bytes]) -> int:
    """Post a body, chunked if it is an iterator, and return the status."""
    return HTTP.post(f"{server.url}{_get_path(transport)}", content=body, headers=headers).status_code


@attack("RTY-01")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("second", TRANSPORTS)
def test_call_retried_with_its_idempotency_key_runs_once(either_team: Team, transport: str, second: str):
    key, decision = uuid.uuid4().hex, {"title": "Once", "body": "And only once"}
    first = either_team.ask(transport, "worker_a", LOG_DECISION, decision, key=key)
    again = either_team.ask(second, "worker_a", LOG_DECISION, dict(reversed(decision.items())), key=key)
    assert (first.data, first.replayed, again.replayed) == (again.data, False, True)
    number = int(first.data["logId"].removeprefix("log-"))
    server = either_team.server
    assert server.count("decision", f"kind = 'manual' AND id >= {number}") == 1
    assert server.count("event", f"name = 'decision.logged' AND data LIKE '%{number}%'") == 1


@attack("RTY-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_reusing_an_idempotency_key_with_other_input_is_a_conflict(either_team: Team, transport: str):
    key = uuid.uuid4().hex
    first = either_team.ask(transport, "worker_a", LOG_DECISION, {"title": "Once", "body": "b"}, key=key)
    with check_only_rejected_call_logged(either_team, "INVALID_INPUT") as marker:
        other = either_team.ask(transport, "worker_a", LOG_DECISION, {"title": marker, "body": "b"}, key=key)
        assert (other.status, other.code) == (409 if transport == "execute" else 200, "INVALID_INPUT")
    assert either_team.ask(transport, "worker_b", LOG_DECISION, {"title": "Mine", "body": "b"}, key=key).code is None
    rows = either_team.server.rows(
        f"SELECT decision FROM decision WHERE id = {first.data['logId'].removeprefix('log-')}"
    )
    assert rows == [("Once",)]


TRIGGERS = {
    "decision": "CREATE TRIGGER broken_{0} BEFORE INSERT ON {0} WHEN NEW.kind = 'manual'"
    " BEGIN SELECT RAISE(ABORT, 'broken'); END",
    "escalation": "CREATE TRIGGER broken_{0} BEFORE INSERT ON {0} BEGIN SELECT RAISE(ABORT, 'broken'); END",
}


@attack("ESC-01")
def test_failing_escalation_does_not_recurse(tmp_path: Path):
    with serving(tmp_path, retry_pause=0.05) as server:
        token = server.agent("worker_a")
        server.rpc("ping", token=token)  # wait until the server has loaded the SDK
        for table, trigger in TRIGGERS.items():
            server.execute_sql(trigger.format(table))
        reply = server.call(LOG_DECISION, {"title": "t", "body": "b"}, token=token)
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "INTERNAL_ERROR")
        # The log is written by a thread of its own, after the response.
        wait_until(lambda: "cannot write an escalation" in server.log.read_text())
        used = processor_seconds(server.pid)
        time.sleep(3)  # the time over which processor use is measured
        assert processor_seconds(server.pid) - used < 0.05 * 3 + 0.05
        assert server.log.read_text().count("cannot write an escalation") == 1
        server.execute_sql("DROP TRIGGER broken_escalation")
        for _ in range(3):
            server.call(LOG_DECISION, {"title": "t", "body": "b"}, token=token)
        [(subject, tool, count)] = server.rows("SELECT subject, tool, count FROM escalation")
        assert (subject, tool, count) == ("agent:worker_a", LOG_DECISION, 3)
        server.execute_sql("DROP TRIGGER broken_decision")
        assert server.call(LOG_DECISION, {"title": "t", "body": "b"}, token=token).status_code == 200


def _build_call(transport: str, tool: str, input: object) -> tuple[dict[str, object], dict[str, str]]:
    """Build the body and headers of a call for this transport."""
    if transport == "execute":
        return {"toolName": tool, "input": input}, {"Content-Type": "application/json"}
    return request("tools/call", {"name": tool, "arguments": input}, era=transport)


def _get_path(transport: str) -> str:
    return "/mcp/execute" if transport == "execute" else "/mcp"
