"""The attack cases that apply to the floor, by id; those about starts, kills and stops are in files of their own."""

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
from tests.doors import attacks
from tests.doors.attacks import attack
from tests.doors.server import ERAS, HTTP, Server, processor_seconds, request, resident, serving, until
from tests.doors.team import DOORS, LOG_DECISION, STATUS, TYPES, Reply, Team
from tests.doors.wire import exchange

LIMIT = 1024 * 1024


def test_every_case_is_tested_or_belongs_to_an_issue_to_come():
    assert attacks.tested() | attacks.LATER.keys() == attacks.CASES.keys()
    assert attacks.tested() & attacks.LATER.keys() == set()


def test_the_copies_of_the_cases_are_current():
    for file in attacks.SHARED.glob("*.yaml"):
        assert (attacks.HERE / "attack" / file.name).read_bytes() == file.read_bytes()


@contextmanager
def nothing_happens(team: Team) -> Iterator[dict[str, str]]:
    """A decision to be smuggled in, which afterwards must be nowhere in the store."""
    marker = uuid.uuid4().hex
    yield {"title": marker, "body": marker}
    assert team.server.count("decision", f"decision LIKE '%{marker}%' OR context LIKE '%{marker}%'") == 0


@attack("TRN-01")
@pytest.mark.parametrize("door", DOORS)
def test_a_foreign_origin_is_refused(either_team: Team, door: str):
    with nothing_happens(either_team) as decision:
        reply = either_team.ask(door, "worker_a", LOG_DECISION, decision, headers={"Origin": "https://evil.example"})
    assert reply.status == 403


@attack("TRN-02")
@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_host_is_refused(either_team: Team, door: str):
    server = either_team.server
    with nothing_happens(either_team) as decision:
        body, headers = _call(door, LOG_DECISION, decision)
        sent = {**headers, **either_team.headers("worker_a"), "Host": f"attacker.example:{server.address[1]}"}
        reply = exchange(server.address, "POST", _path(door), sent.items(), json.dumps(body), host=False)
    assert reply.status in (421, 403)


@attack("TRN-05")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_only_json_is_accepted(either_team: Team, door: str, kind: str):
    with nothing_happens(either_team) as decision:
        reply = either_team.ask(door, "worker_a", LOG_DECISION, decision, headers={"Content-Type": kind})
    assert reply.status == 415


@attack("TRN-06")
def test_header_and_body_must_agree(either_team: Team):
    with nothing_happens(either_team) as decision:
        reply = either_team.ask("2026-07-28", "worker_a", LOG_DECISION, decision, headers={"Mcp-Name": STATUS})
    assert (reply.status, reply.response.json()["error"]["code"]) == (400, -32020)


@attack("TRN-07")
def test_an_unsupported_protocol_version_is_named(team: Team):
    reply = team.server.rpc("tools/list", era="2099-01-01", token=team.tokens["worker_a"])
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (400, -32022)
    assert "2026-07-28" in error["data"]["supported"]


@attack("AUT-01")
@pytest.mark.parametrize("claim", ["supervisor", "worker_b", "local", "operator", "user_a", "agent:worker_a", "ghost"])
def test_an_agent_id_in_the_body_is_no_credential(either_team: Team, claim: str):
    with nothing_happens_but_a_refusal(either_team) as decision:
        reply = either_team.ask("execute", "worker_a", LOG_DECISION, decision, agentId=claim)
        assert (reply.status, reply.code) == (403, "PERMISSION_DENIED")


@contextmanager
def nothing_happens_but_a_refusal(team: Team) -> Iterator[dict[str, str]]:
    """A decision that is not made, but the attempt is in the log under the one who really made it."""
    marker = uuid.uuid4().hex
    yield {"title": marker, "body": marker}
    server = team.server
    tried = server.rows(f"SELECT actor, subject, reference FROM decision WHERE context LIKE '%{marker}%'")
    assert [(actor, subject) for actor, subject, _ in tried] == [("agent:worker_a", "agent:worker_a")]
    told = server.rows(f"SELECT kind, code FROM decision WHERE reference = {tried[0][2]} ORDER BY id")
    assert told == [("invocation", None), ("error", "PERMISSION_DENIED")]


@attack("AUT-02")
@pytest.mark.parametrize("door", DOORS)
def test_no_token_once_any_token_exists(either_team: Team, door: str):
    with nothing_happens(either_team) as decision:
        reply = either_team.ask(door, None, LOG_DECISION, decision)
    assert reply.status == 401
    assert reply.response.headers["www-authenticate"] == 'Bearer realm="shopfloor"'


@attack("AUT-03")
@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "HS256"])
def test_an_unsigned_jwt_is_refused(either_team: Team, algorithm: str):
    _, payload, _ = either_team.tokens["user_a"].split(".")
    header = jwt.utils.base64url_encode(json.dumps({"alg": algorithm, "typ": "JWT"}).encode()).decode()
    assert _statuses(either_team, f"{header}.{payload}.") == {401}


@attack("AUT-04")
@pytest.mark.parametrize("audience", ["another-service", "shopfloor2", "SHOPFLOOR", "", ["another"], None])
def test_a_token_for_another_audience_is_refused(either_team: Team, audience: object):
    claims = jwt.decode(either_team.tokens["user_a"], options={"verify_signature": False})
    forged = jwt.encode({**claims, "aud": audience}, signing_key(either_team.server), algorithm="HS256")
    assert _statuses(either_team, forged) == {401}
    assert _statuses(either_team, jwt.encode(claims, signing_key(either_team.server))) == {200}


def signing_key(server: Server) -> bytes:
    """The key of the floor, which nobody has outside of this test."""
    [(key,)] = server.rows("SELECT value FROM secret WHERE name = 'user-tokens'")
    return bytes(key)


def _statuses(team: Team, token: str) -> set[int]:
    """How the doors of MCP and the metrics page meet a token; a user has no tool on /mcp/execute yet."""
    listed = {team.server.rpc("tools/list", token=token, era=era).status_code for era in ERAS}
    called = team.server.call(STATUS, token=token).status_code
    assert called == 401 or 401 not in listed
    metrics = HTTP.get(f"{team.server.url}/metrics", headers={"Authorization": f"Bearer {token}"})
    return listed | {metrics.status_code}


@attack("AUT-05")
@pytest.mark.parametrize("door", DOORS)
def test_revocation_works_at_once(either_team: Team, door: str):
    issued = either_team.server.cli("token", "issue", "--agent", "worker_b")
    assert either_team.ask(door, issued["token"], STATUS).status == 200
    either_team.server.cli("token", "revoke", issued["id"])
    revoked = time.monotonic()
    statuses = [either_team.ask(door, issued["token"], STATUS).status]
    while statuses[-1] == 200 and time.monotonic() < revoked + 1:
        statuses.append(either_team.ask(door, issued["token"], STATUS).status)
    assert statuses[-1] == 401
    assert either_team.server.database is not None or statuses == [401]


SEED = {
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
"""The table of the factory contract, written down once more."""


@attack("PRM-01")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("who", ["supervisor", "orchestrator", "worker_a"])
def test_every_disallowed_tool_of_each_type_is_refused(workshop: Team, who: str, door: str):
    tools = {row["name"] for row in workshop.server.cli("tools", "factory")}
    allow, deny = SEED[TYPES[who]]
    outcomes = {}
    for tool in tools:
        reply = workshop.ask(door, who, tool, {"unknown": 1})
        outcomes[tool] = (reply.code, reply.envelope["error"]["message"])
    for tool, (code, message) in outcomes.items():
        allowed = any(fnmatchcase(tool, one) for one in [*allow, *ADDITIONS.get(TYPES[who], [])])
        if allowed and not any(fnmatchcase(tool, one) for one in deny):
            assert code == "INVALID_INPUT", tool
        else:
            assert code == "PERMISSION_DENIED", tool
            assert message == f"Tool '{tool}' is not allowed for agent type '{TYPES[who]}'"
    refused = [tool for tool, (code, _) in outcomes.items() if code == "PERMISSION_DENIED"]
    assert bool(refused) == (who != "supervisor")


@attack("PRM-02")
def test_unknown_agent_and_unknown_tool_have_their_own_codes(either_team: Team):
    ghost = either_team.ask("execute", "operator", STATUS, agentId="ghost")
    nope = either_team.ask("execute", "worker_a", "mcp__nope__nope", agentId="worker_a")
    assert (ghost.status, ghost.code) == (404, "AGENT_NOT_FOUND")
    assert (nope.status, nope.code) == (404, "TOOL_NOT_FOUND")
    for era in ERAS:
        over_mcp = either_team.ask(era, "worker_a", "mcp__nope__nope")
        assert (over_mcp.status, over_mcp.code) == (200, "TOOL_NOT_FOUND")


SQL = [
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
@pytest.mark.parametrize("door", DOORS)
def test_sql_in_every_string_is_only_text(either_team: Team, door: str):
    server = either_team.server
    agents = server.count("agent")
    for text in SQL:
        made = either_team.ask(door, "worker_a", LOG_DECISION, {"title": text, "body": text})
        number = made.data["logId"].removeprefix("log-")
        kept = server.rows(f"SELECT decision, reasoning, subject FROM decision WHERE id = {number}")
        assert kept == [(text, text, "agent:worker_a")]
    for text in SQL:
        assert either_team.ask(door, "worker_a", STATUS, {text: text}).code == "INVALID_INPUT"
        key = {"idempotencyKey" if door == "execute" else "key": f"{door}{text}"}
        assert either_team.ask(door, "worker_a", LOG_DECISION, {"title": "t", "body": "b"}, **key).code is None
    for name in [*SQL, "a\0b"]:
        if door == "execute":
            assert either_team.ask(door, "worker_a", name).code == "TOOL_NOT_FOUND"
            assert either_team.ask(door, "worker_a", STATUS, agentId=name).code == "PERMISSION_DENIED"
            assert either_team.ask(door, "operator", STATUS, agentId=name).status in (404, 422)
    assert server.count("agent") == agents


@pytest.mark.parametrize("text", [*SQL, "a\0b", "\u202e", ""])
def test_no_text_breaks_any_tool(either_team: Team, text: str):
    values = {"string": text, "integer": 1, "boolean": True, "array": [text], "object": {text: text}, "number": 1.5}
    listed = either_team.server.rpc("tools/list", token=either_team.tokens["supervisor"]).json()["result"]["tools"]
    for tool in (tool for tool in listed if tool["name"].startswith("mcp__")):
        properties = tool["inputSchema"]["properties"]
        filled = {name: values[schema.get("type", "string")] for name, schema in properties.items()}
        filled |= {"timeoutSeconds": 0} if "timeoutSeconds" in filled else {}  # nobody waits here
        for door in DOORS:
            reply = either_team.ask(door, "supervisor", tool["name"], filled)
            assert reply.code not in ("INTERNAL_ERROR", "TRANSIENT_ERROR")
            assert reply.status < 500


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("field", ["title", "body"])
def test_text_that_cannot_be_kept_is_refused(either_team: Team, door: str, field: str):
    with nothing_happens_but(either_team, "INVALID_INPUT") as marker:
        decision = {"title": marker, "body": "b"} | {field: f"{marker}\0"}
        reply = either_team.ask(door, "worker_a", LOG_DECISION, decision)
        assert (reply.code, reply.status) == ("INVALID_INPUT", 422 if door == "execute" else 200)


@contextmanager
def nothing_happens_but(team: Team, code: str) -> Iterator[str]:
    """A marker that afterwards is in no row but those of a call that was refused with this code."""
    marker = uuid.uuid4().hex
    yield marker
    [(reference,)] = team.server.rows(f"SELECT reference FROM decision WHERE context LIKE '%{marker}%'")
    kinds = team.server.rows(f"SELECT kind, code FROM decision WHERE reference = {reference} ORDER BY id")
    assert kinds == [("invocation", None), ("error", code)]


MASS = [
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
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("more", MASS, ids=lambda more: next(iter(more)))
def test_unknown_fields_do_not_reach_the_store(team: Team, door: str, more: dict[str, object]):
    with nothing_happens_but(team, "INVALID_INPUT") as marker:
        reply = team.ask(door, "worker_a", LOG_DECISION, {"title": marker, "body": "b", **more})
        assert reply.code == "INVALID_INPUT"
        assert reply.envelope["error"]["details"]["field"] == next(iter(more))


@attack("LIM-01")
def test_rate_limits_hold_per_caller_and_tool(tmp_path: Path):
    with serving(tmp_path, rate_limits={STATUS: 5}) as server:
        team = Team(server, {"worker_a": server.agent("worker_a"), "worker_b": server.agent("worker_b")})
        within = [team.ask(door, "worker_a", STATUS).code for door in ("execute", *ERAS, "execute", "legacy")]
        over = {door: team.ask(door, "worker_a", STATUS) for door in DOORS}
        assert within == [None] * 5
        for door, reply in over.items():
            assert (reply.status, reply.code) == (429 if door == "execute" else 200, "RATE_LIMITED")
            wait = int(reply.response.headers["retry-after"])
            assert 1 <= wait <= 60
            assert reply.envelope["error"]["details"]["seconds"] == wait
            assert reply.envelope["error"]["message"] == f"Rate limit exceeded for {STATUS}; try again in {wait} s."
        assert team.ask("execute", "worker_b", STATUS).code is None
        assert team.ask("execute", "worker_a", LOG_DECISION, {"title": "t", "body": "b"}).code is None
        assert _limited(server) == [("agent:worker_a", 3)]


A_MINUTE = {
    "context_search": (30, {"query": "how a queue is chosen"}),
    "read_file": (100, {"path": "queue.py"}),
    "grep_codebase": (60, {"pattern": "queue"}),
}


@attack("LIM-01")
def test_the_context_toolset_has_the_limits_of_its_contract(tmp_path: Path):
    (tmp_path / "queue.py").write_text("def queue():\n    return []\n")
    with serving(tmp_path, embeddings="off") as server:
        team = Team(server, {"worker_a": server.agent("worker_a"), "worker_b": server.agent("worker_b")})
        until(lambda: team.ask("execute", "worker_b", "context_search", A_MINUTE["context_search"][1]).code is None)

        def used_up(tool: str) -> tuple[list[str | None], Reply]:
            allowed, input = A_MINUTE[tool]
            within = [team.ask("execute", "worker_a", tool, input).code for _ in range(allowed)]
            return within, team.ask("execute", "worker_a", tool, input)

        with ThreadPoolExecutor(len(A_MINUTE)) as hands:
            used = list(zip(A_MINUTE, hands.map(used_up, A_MINUTE), strict=True))
        for tool, (within, over) in used:
            assert within == [None] * A_MINUTE[tool][0], tool
            assert (over.status, over.code) == (429, "RATE_LIMITED")
            assert 1 <= int(over.response.headers["retry-after"]) <= 60
            assert team.ask("execute", "worker_b", tool, A_MINUTE[tool][1]).code is None


def _limited(server: Server) -> list[tuple[object, ...]]:
    """Rows of the log about calls too many; one per caller, tool and window, however many those were."""
    return server.rows("SELECT subject, count FROM decision WHERE kind = 'limited'")


@attack("LIM-02")
@pytest.mark.parametrize("door", DOORS)
def test_a_body_over_the_limit_is_refused_without_being_kept(team: Team, door: str):
    server = team.server
    body, headers = _call(door, LOG_DECISION, {"title": "t", "body": "x"})
    sent = {**headers, **team.headers("worker_a")}
    fitting = json.dumps(body).encode().replace(b'"x"', b'"' + b"x" * 60_000 + b'"')
    padded = fitting + b" " * (LIMIT - len(fitting))
    assert _post(server, door, sent, padded) == 200
    before = resident(server.pid)
    for _ in range(8):
        assert _post(server, door, sent, padded + b" ") == 413
        assert _post(server, door, sent, iter([padded, b" "])) == 413
    assert resident(server.pid) - before < 8_000_000


def _post(server: Server, door: str, headers: dict[str, str], body: bytes | Iterator[bytes]) -> int:
    """The status for a body with its length, or for one in chunks without."""
    return HTTP.post(f"{server.url}{_path(door)}", content=body, headers=headers).status_code


@attack("RTY-01")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("second", DOORS)
def test_a_retried_call_is_one_call(either_team: Team, door: str, second: str):
    key, decision = uuid.uuid4().hex, {"title": "Once", "body": "And only once"}
    first = either_team.ask(door, "worker_a", LOG_DECISION, decision, key=key)
    again = either_team.ask(second, "worker_a", LOG_DECISION, dict(reversed(decision.items())), key=key)
    assert (first.data, first.replayed, again.replayed) == (again.data, False, True)
    number = int(first.data["logId"].removeprefix("log-"))
    server = either_team.server
    assert server.count("decision", f"kind = 'manual' AND id >= {number}") == 1
    assert server.count("event", f"name = 'decision.logged' AND data LIKE '%{number}%'") == 1


@attack("RTY-02")
@pytest.mark.parametrize("door", DOORS)
def test_the_same_key_with_other_content_is_a_conflict(either_team: Team, door: str):
    key = uuid.uuid4().hex
    first = either_team.ask(door, "worker_a", LOG_DECISION, {"title": "Once", "body": "b"}, key=key)
    with nothing_happens_but(either_team, "INVALID_INPUT") as marker:
        other = either_team.ask(door, "worker_a", LOG_DECISION, {"title": marker, "body": "b"}, key=key)
        assert (other.status, other.code) == (409 if door == "execute" else 200, "INVALID_INPUT")
    assert either_team.ask(door, "worker_b", LOG_DECISION, {"title": "Mine", "body": "b"}, key=key).code is None
    kept = either_team.server.rows(
        f"SELECT decision FROM decision WHERE id = {first.data['logId'].removeprefix('log-')}"
    )
    assert kept == [("Once",)]


BROKEN = {
    "decision": "CREATE TRIGGER broken_{0} BEFORE INSERT ON {0} WHEN NEW.kind = 'manual'"
    " BEGIN SELECT RAISE(ABORT, 'broken'); END",
    "escalation": "CREATE TRIGGER broken_{0} BEFORE INSERT ON {0} BEGIN SELECT RAISE(ABORT, 'broken'); END",
}


@attack("ESC-01")
def test_a_failing_escalation_does_not_recurse(tmp_path: Path):
    with serving(tmp_path, retry_pause=0.05) as server:
        token = server.agent("worker_a")
        server.rpc("ping", token=token)  # what the server loads a little after its start is there from now on
        for table, trigger in BROKEN.items():
            server.reach_in(trigger.format(table))
        reply = server.call(LOG_DECISION, {"title": "t", "body": "b"}, token=token)
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "INTERNAL_ERROR")
        assert server.log.read_text().count("an escalation cannot be written") == 1
        used = processor_seconds(server.pid)
        time.sleep(3)  # the stretch of time over which the processor is watched
        assert processor_seconds(server.pid) - used < 0.05 * 3 + 0.05
        server.reach_in("DROP TRIGGER broken_escalation")
        for _ in range(3):
            server.call(LOG_DECISION, {"title": "t", "body": "b"}, token=token)
        [(subject, tool, count)] = server.rows("SELECT subject, tool, count FROM escalation")
        assert (subject, tool, count) == ("agent:worker_a", LOG_DECISION, 3)
        server.reach_in("DROP TRIGGER broken_decision")
        assert server.call(LOG_DECISION, {"title": "t", "body": "b"}, token=token).status_code == 200


def _call(door: str, tool: str, input: object) -> tuple[dict[str, object], dict[str, str]]:
    """The body and the headers of a call, as this door wants them."""
    if door == "execute":
        return {"toolName": tool, "input": input}, {"Content-Type": "application/json"}
    return request("tools/call", {"name": tool, "arguments": input}, era=door)


def _path(door: str) -> str:
    return "/mcp/execute" if door == "execute" else "/mcp"
