"""Malformed and hostile requests: each is rejected as specified, changes nothing and affects no other caller."""

from __future__ import annotations

import json
import socket
import uuid
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.transports.server import ERAS, HTTP, bearer, request, resident_bytes
from tests.transports.team import LOG_DECISION, STATUS, Team
from tests.transports.wire import Header, Reply, read_until_closed, send_request

JSON = ("Content-Type", "application/json")
ACCEPT = ("Accept", "application/json, text/event-stream")
MAX_DEPTH = 64


@dataclass(frozen=True)
class RawRequest:
    """A request and its expected status. {port}, {token} and {marker} are filled in."""

    name: str
    status: int
    headers: tuple[Header, ...] = ()
    target: str = "/mcp/execute"
    method: str = "POST"
    host: bool = True
    kind: bool = True

    def send(self, team: Team, marker: str) -> Reply:
        values = {"{port}": str(team.server.address[1]), "{token}": team.tokens["worker_a"], "{marker}": marker}
        headers = [*([JSON] if self.kind else []), ("Authorization", "Bearer {token}"), *self.headers]
        filled_headers = [(name, _fill(value, values)) for name, value in headers]
        body = json.dumps({"toolName": LOG_DECISION, "input": {"title": marker, "body": "b"}})
        target = _fill(self.target, values)
        return send_request(team.server.address, self.method, target, filled_headers, body, host=self.host)


def _fill(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def with_host(name: str, value: str, status: int = 421) -> RawRequest:
    return RawRequest(f"host {name}", status, (("Host", value),), host=False)


def with_origin(name: str, *values: str, status: int = 403) -> RawRequest:
    return RawRequest(f"origin {name}", status, tuple(("Origin", value) for value in values))


def with_content_type(name: str, *values: str, status: int = 415) -> RawRequest:
    return RawRequest(f"content type {name}", status, tuple(("Content-Type", value) for value in values), kind=False)


GATE_REQUESTS = [
    with_host("empty", ""),
    with_host("with userinfo before", "127.0.0.1@evil.example:{port}"),
    with_host("with userinfo", "evil.example@127.0.0.1:{port}"),
    with_host("with a trailing dot", "localhost.:{port}"),
    with_host("as a number", "2130706433:{port}"),
    with_host("of all interfaces", "0.0.0.0:{port}"),
    with_host("that begins like ours", "localhost.evil.example:{port}"),
    with_host("that ends like ours", "evil-localhost:{port}"),
    with_host("in brackets and more", "[::1]evil.example:{port}"),
    with_host("with a name for a port", "localhost:evil.example"),
    with_host("with two ports", "localhost:{port}:80"),
    with_host("with a space", "127.0.0.1 evil.example"),
    with_host("with a comma", "127.0.0.1,evil.example"),
    with_host("with a path", "127.0.0.1/evil.example"),
    with_host("that is a URL", "http://127.0.0.1:{port}"),
    with_host("of ours in capitals", "LOCALHOST:{port}", 200),
    with_host("of ours on another port", "127.0.0.1:1", 200),
    RawRequest("host missing", 421, host=False),
    RawRequest("host twice", 421, (("Host", "evil.example"),)),
    RawRequest("host twice the same", 421, (("Host", "127.0.0.1:{port}"),)),
    RawRequest("an untrusted X-Forwarded-Host", 200, (("X-Forwarded-Host", "evil.example"),)),
    with_origin("null", "null"),
    with_origin("empty", ""),
    with_origin("of a file", "file://"),
    with_origin("of an extension", "chrome-extension://abcdefgh"),
    with_origin("of another port", "http://127.0.0.1:1"),
    with_origin("that begins like ours", "http://127.0.0.1:{port}.evil.example"),
    with_origin("with a slash", "http://127.0.0.1:{port}/"),
    with_origin("with userinfo", "http://127.0.0.1:{port}@evil.example"),
    with_origin("by another name of ours", "http://localhost:{port}"),
    with_origin("of ours, then another", "http://127.0.0.1:{port}", "https://evil.example"),
    with_origin("of another, then ours", "https://evil.example", "http://127.0.0.1:{port}"),
    with_origin("of ours", "http://127.0.0.1:{port}", status=200),
    *(
        RawRequest(f"a fetch from {site!r}", 403, (("Sec-Fetch-Site", site),))
        for site in ("cross-site", "same-site", "", "x")
    ),
    RawRequest("a fetch that says two things", 403, (("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site"))),
    RawRequest("a navigation that posts", 403, (("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"))),
    RawRequest("a fetch from our own page", 200, (("Sec-Fetch-Site", "same-origin"),)),
    with_content_type("missing"),
    with_content_type("empty", ""),
    with_content_type("of a form", "application/x-www-form-urlencoded"),
    with_content_type("that begins like JSON", "application/jsonx"),
    with_content_type("of another JSON", "application/ld+json"),
    with_content_type("of two kinds in one", "application/json, text/plain"),
    with_content_type("of a parameter", "text/plain; application/json"),
    with_content_type("JSON, then text", "application/json", "text/plain"),
    with_content_type("text, then JSON", "text/plain", "application/json"),
    with_content_type("JSON twice", "application/json", "application/json"),
    with_content_type("JSON in capitals", "APPLICATION/JSON", status=200),
    with_content_type("JSON with an odd charset", "application/json; charset=x", status=200),
    *(
        RawRequest(f"a body in {coding}", 415, (("Content-Encoding", coding),))
        for coding in ("gzip", "br", "identity, gzip", "")
    ),
    RawRequest("an identity body", 200, (("Content-Encoding", " Identity "),)),
]

PATH_REQUESTS = [
    *(
        RawRequest(f"{method} is not allowed", 405, method=method)
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
    ),
    *(RawRequest(f"{method} is not allowed", 405, method=method) for method in ("PATCH", "TRACE")),
    *(RawRequest(f"{method} is not a method", 400, method=method) for method in ("post", "FOO")),
    *(
        RawRequest(f"{method} on MCP", 405, target="/mcp", method=method)
        for method in ("GET", "HEAD", "DELETE", "OPTIONS")
    ),
    RawRequest("two slashes", 404, target="//mcp/execute"),
    RawRequest("two slashes inside", 404, target="/mcp//execute"),
    RawRequest("another host in the path", 404, target="//evil.example/mcp/execute"),
    RawRequest("a dot", 404, target="/mcp/./execute"),
    RawRequest("two dots", 404, target="/mcp/x/../execute"),
    RawRequest("two encoded dots", 404, target="/mcp/%2e%2e/mcp/execute"),
    RawRequest("capitals", 404, target="/MCP/EXECUTE"),
    RawRequest("a parameter", 404, target="/mcp/execute;x"),
    RawRequest("an encoded NUL", 404, target="/mcp/execute%00"),
    RawRequest("an encoded space", 404, target="/mcp/execute%20"),
    RawRequest("an encoded line", 404, target="/mcp/execute%0d%0aX:y"),
    RawRequest("broken encoding", 404, target="/mcp/execute%zz"),
    RawRequest("bytes that are not text", 400, target="/mcp/\xff"),
    RawRequest("a backslash", 404, target="/mcp/execute\\"),
    RawRequest("no leading slash", 400, target="mcp/execute"),
    RawRequest("a star", 404, target="*"),
    RawRequest("a slash at the end", 307, target="/mcp/execute/"),
    RawRequest("a toolset that is not served", 404, target="/mcp/todo_direct"),
    RawRequest("not a toolset", 404, target="/mcp/__class__"),
    RawRequest("an encoded letter", 200, target="/mcp/%65xecute"),
    RawRequest("a query", 200, target="/mcp/execute?toolName=x"),
    RawRequest("an absolute target of ours", 200, target="http://127.0.0.1:{port}/mcp/execute"),
    RawRequest("an absolute target of another", 421, target="http://evil.example/mcp/execute"),
    RawRequest("an absolute target of another on our port", 421, target="http://evil.example:{port}/mcp/execute"),
    RawRequest("an absolute target with userinfo", 421, target="http://127.0.0.1@evil.example/mcp/execute"),
]

TOKENS = [
    ("no scheme", "{token}"),
    ("nothing", ""),
    ("only the scheme", "Bearer"),
    ("only spaces", "Bearer   "),
    ("another scheme", "Basic {token}"),
    ("a tab", "Bearer\t{token}"),
    ("text after the token", "Bearer {token} x"),
    ("two tokens in one header", "Bearer {token}, Bearer {token}"),
    ("quotes", 'Bearer "{token}"'),
    ("60,000 characters", "Bearer " + "a" * 60_000),
    ("many dots", "Bearer " + "." * 50_000),
    ("another secret", "Bearer {token}x"),
    ("no secret", "Bearer sfa_aaaaaaaaaaaa_"),
    ("an operator's prefix", "Bearer sfo{tail}"),
    ("a run's prefix", "Bearer sfr{tail}"),
    ("a user's prefix", "Bearer sfu{tail}"),
    ("no prefix", "Bearer {tail}"),
    ("other letters", "Bearer \xe9\xff"),
    ("SQL", "Bearer sfa_' OR '1'='1_x"),
    ("a wildcard", "Bearer sfa_%_%"),
    ("something like a JWT", "Bearer a.b.c"),
    ("JSON", 'Bearer {"alg":"none"}'),
]


@pytest.mark.parametrize("raw_request", [*GATE_REQUESTS, *PATH_REQUESTS], ids=lambda raw_request: raw_request.name)
def test_gate_accepts_or_rejects_the_request(team: Team, raw_request: RawRequest):
    marker = uuid.uuid4().hex
    reply = raw_request.send(team, marker)
    assert reply.status == raw_request.status
    stored = team.server.count("decision", f"kind = 'manual' AND decision = '{marker}'")
    logged = team.server.count("decision", f"context LIKE '%{marker}%'")
    assert (stored, logged) == ((1, 1) if raw_request.status == 200 else (0, 0))


@pytest.mark.parametrize("transport", ["/mcp/execute", "/mcp", "/mcp/factory"])
@pytest.mark.parametrize(("name", "value"), TOKENS, ids=[name for name, _ in TOKENS])
def test_malformed_token_is_rejected(team: Team, transport: str, name: str, value: str):
    token = team.tokens["worker_a"]
    credential = value.replace("{token}", token).replace("{tail}", token.removeprefix("sfa"))
    reply = send_request(
        team.server.address, "POST", transport, [JSON, ACCEPT, ("Authorization", credential)], _build_body()
    )
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == 'Bearer realm="shopfloor", error="invalid_token"'
    assert token not in reply.body.decode()


@pytest.mark.parametrize("transport", ["/mcp/execute", "/mcp"])
def test_token_outside_the_authorization_header_is_ignored(team: Team, transport: str):
    token = team.tokens["worker_a"]
    places = [("Cookie", f"token={token}"), ("X-Authorization", f"Bearer {token}"), ("Mcp-Session-Id", token)]
    reply = send_request(
        team.server.address, "POST", f"{transport}?access_token={token}", [JSON, ACCEPT, *places], _build_body()
    )
    assert reply.status == 401


@pytest.mark.parametrize("second", ["{token}", "x", ""])
def test_two_authorization_headers_are_rejected(team: Team, second: str):
    token = team.tokens["worker_a"]
    credential = [("Authorization", f"Bearer {one}") for one in (token, second.replace("{token}", token))]
    for order in (credential, credential[::-1]):
        assert send_request(team.server.address, "POST", "/mcp/execute", [JSON, *order], _build_body()).status == 401


def test_bearer_scheme_is_case_insensitive(team: Team):
    for scheme in ("bearer", "BEARER", "Bearer "):
        credential = ("Authorization", f"{scheme} {team.tokens['worker_a']}")
        assert (
            send_request(team.server.address, "POST", "/mcp/execute", [JSON, credential], _build_body()).status == 200
        )


def _build_body(tool: str = STATUS, **fields: Any) -> str:
    return json.dumps({"toolName": tool, "input": {}, **fields})


def build_nested_call(depth: int) -> str:
    """Build a call whose JSON has this depth."""
    arrays = "[" * (depth - 2) + "]" * (depth - 2)
    return f'{{"toolName": "{LOG_DECISION}", "input": {{"title": "t", "body": {arrays}}}}}'


BODIES: dict[str, tuple[int, bytes | str]] = {
    "nothing": (400, ""),
    "half an object": (400, '{"toolName":'),
    "null": (400, "null"),
    "a list": (400, "[]"),
    "a batch": (400, f"[{_build_body()},{_build_body()}]"),
    "text": (400, '"toolName"'),
    "two documents": (400, _build_body() * 2),
    "a comma too many": (400, '{"toolName": "x",}'),
    "a comment": (400, f"/**/{_build_body()}"),
    "single quotes": (400, "{'toolName': 'x'}"),
    "a byte order mark": (400, b"\xef\xbb\xbf" + _build_body().encode()),
    "UTF-16": (400, _build_body().encode("utf-16")),
    "Latin-1": (400, b'{"toolName":"\xe9"}'),
    "an overlong slash": (400, b'{"toolName":"\xc0\xaf"}'),
    "a surrogate in bytes": (400, b'{"toolName":"\xed\xa0\x80"}'),
    "half a surrogate pair": (400, f'{{"toolName":"{LOG_DECISION}","input":{{"title":"\\ud800","body":""}}}}'),
    "half a surrogate pair as the tool": (400, '{"toolName":"\\udfff"}'),
    "NaN": (400, f'{{"toolName":"{LOG_DECISION}","input":{{"title":NaN}}}}'),
    "Infinity": (400, f'{{"toolName":"{LOG_DECISION}","input":{{"title":-Infinity}}}}'),
    "a float too large": (422, f'{{"toolName":"{LOG_DECISION}","input":{{"title":1e999,"body":"b"}}}}'),
    "an integer of 65 bits": (422, f'{{"toolName":"{STATUS}","input":{{"x":{2**64}}}}}'),
    "an integer of 20,000 digits": (400, f'{{"toolName":"{STATUS}","input":{{"x":{"9" * 20_000}}}}}'),
    "64 levels": (422, build_nested_call(MAX_DEPTH)),
    "65 levels": (400, build_nested_call(MAX_DEPTH + 1)),
    "300,000 levels": (400, "[" * 300_000),
    "levels behind an escaped quote": (400, '{"a":"\\\\","b":' + "[" * 80),
    "no tool": (400, "{}"),
    "an empty tool": (400, '{"toolName":""}'),
    "a list of tools": (400, f'{{"toolName":["{STATUS}"]}}'),
    "__proto__ as the tool": (404, _build_body("__proto__")),
    "__class__ as the tool": (404, _build_body("__class__")),
    "constructor as the tool": (404, _build_body("constructor")),
    "a look-alike letter": (404, _build_body(STATUS.replace("a", "а"))),  # a Cyrillic one
    "capitals": (404, _build_body(STATUS.upper())),
    "a space behind the tool": (404, _build_body(f"{STATUS} ")),
    "a NUL in the tool": (404, _build_body(f"{STATUS}\0")),
    "a pattern as the tool": (404, _build_body("mcp__*")),
    "half a megabyte as the tool": (404, _build_body("x" * 500_000)),
    "a list as the input": (422, _build_body(input=[])),
    "false as the input": (422, _build_body(input=False)),
    "an unknown field": (400, _build_body(admin=True)),
    "__proto__ as a field": (400, _build_body(__proto__={"agentId": "supervisor"})),
    "a number as the agent": (400, _build_body(agentId=1)),
    "a query as the agent": (400, _build_body(agentId={"$ne": None})),
    "an empty agent": (400, _build_body(agentId="")),
    "the agent in capitals": (403, _build_body(agentId="WORKER_A")),
    "a space behind the agent": (403, _build_body(agentId="worker_a ")),
    "a wildcard as the agent": (403, _build_body(agentId="*")),
    "a second agent": (400, f'{{"agentId":"worker_a","agentId":"supervisor","toolName":"{STATUS}"}}'),
    "a number as the key": (400, _build_body(idempotencyKey=1)),
    "an empty key": (422, _build_body(idempotencyKey="")),
    "a line in the key": (422, _build_body(idempotencyKey="a\nb")),
    "a NUL in the key": (422, _build_body(idempotencyKey="a\0b")),
    "a key too long": (422, _build_body(idempotencyKey="k" * 256)),
}


@pytest.mark.parametrize("name", BODIES)
def test_malformed_body_is_rejected(team: Team, name: str):
    status, body = BODIES[name]
    before = team.server.count("decision", "kind = 'manual'")
    credential = ("Authorization", f"Bearer {team.tokens['worker_a']}")
    reply = send_request(team.server.address, "POST", "/mcp/execute", [JSON, credential], body)
    assert reply.status == status
    assert reply.json.keys() == {"success", "error", "timestamp"}
    assert reply.json["success"] is False
    assert reply.json["error"].keys() == {"code", "message", "details"}
    assert len(reply.body) < 2000
    assert team.server.count("decision", "kind = 'manual'") == before


@pytest.mark.parametrize("name", BODIES)
def test_missing_credential_is_reported_for_any_body(team: Team, name: str):
    _, body = BODIES[name]
    before = team.server.count("decision")
    reply = send_request(team.server.address, "POST", "/mcp/execute", [JSON], body)
    assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer realm="shopfloor"')
    assert reply.json["error"]["code"] == "PERMISSION_DENIED"
    assert team.server.count("decision") == before


INVALID_FIELDS: dict[str, dict[str, Any]] = {
    "an unknown field": {"admin": True},
    "another caller's field": {"user_id": "user_a"},
    "a number as the agent": {"agentId": 1},
    "a list of agents": {"agentId": ["worker_a", "supervisor"]},
    "an empty agent": {"agentId": ""},
    "a number as the key": {"idempotencyKey": 1},
}


@pytest.mark.parametrize("name", INVALID_FIELDS)
def test_invalid_fields_beside_the_input_are_logged(either_team: Team, name: str):
    marker = uuid.uuid4().hex
    decision = {"title": marker, "body": "b"}
    reply = either_team.execute("worker_a", LOG_DECISION, decision, **INVALID_FIELDS[name])
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")
    rows = either_team.server.rows(
        "SELECT kind, subject, code FROM decision WHERE reference IN"
        f" (SELECT reference FROM decision WHERE context LIKE '%{marker}%') ORDER BY id"
    )
    assert rows == [("invocation", "agent:worker_a", None), ("error", "agent:worker_a", "INVALID_INPUT")]


def test_contradicting_idempotency_keys_are_rejected(team: Team):
    credential = ("Authorization", f"Bearer {team.tokens['worker_a']}")
    key = "Idempotency-Key"
    for headers, body in [
        ([(key, "one"), (key, "two")], _build_body()),
        ([(key, "one")], _build_body(idempotencyKey="two")),
    ]:
        assert send_request(team.server.address, headers=[JSON, credential, *headers], body=body).status == 400
    assert send_request(team.server.address, headers=[JSON, credential, (key, "")], body=_build_body()).status == 422
    same = [(key, "one "), (key, " one")]
    assert (
        send_request(
            team.server.address, headers=[JSON, credential, *same], body=_build_body(idempotencyKey="one")
        ).status
        == 200
    )


def build_message(**parts: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}, **parts})


MESSAGES: dict[str, str | bytes] = {
    "nothing": "",
    "half an object": "{",
    "null": "null",
    "a batch": f"[{build_message()},{build_message()}]",
    "an empty batch": "[]",
    "text": '"tools/list"',
    "no version": '{"id": 1, "method": "tools/list"}',
    "another version": build_message(jsonrpc="1.0"),
    "a number as the method": build_message(method=1),
    "a list as the parameters": build_message(params=[]),
    "65 levels": "[" * 65 + "]" * 65,
    "300,000 levels": "[" * 300_000,
    "bytes that are not text": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "UTF-16": build_message().encode("utf-16"),
    "two documents": build_message() * 2,
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", MESSAGES)
def test_malformed_message_is_a_protocol_error(team: Team, era: str, name: str):
    reply = _post_message(team, era, MESSAGES[name])
    assert reply.status == 400
    assert reply.json["error"]["code"] in (-32700, -32600, -32602)
    assert "result" not in reply.json


UNREADABLE_CALLS: dict[str, Callable[[str], str | bytes]] = {
    "NaN beside a duplicate key": lambda text: text.replace('"name":', '"_meta": {"x": NaN}, "name": "a", "name":', 1),
    "a surrogate beside a duplicate key": lambda text: text.replace('"name":', '"\\ud800": 0, "name": "a", "name":', 1),
    "NaN": lambda text: text.replace('"params": {', '"params": {"x": NaN, ', 1),
    "Infinity": lambda text: text.replace('"params": {', '"params": {"x": -Infinity, ', 1),
    "UTF-8 with a byte order mark": lambda text: text.encode("utf-8-sig"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-32 without a byte order mark": lambda text: text.encode("utf-32-le"),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", UNREADABLE_CALLS)
def test_call_that_only_some_parsers_read_does_not_run(team: Team, era: str, name: str):
    marker = uuid.uuid4().hex
    params = {"name": LOG_DECISION, "arguments": {"title": marker, "body": "b"}}
    body, headers = request("tools/call", params, era=era)
    reply = _post_message(team, era, UNREADABLE_CALLS[name](json.dumps(body)), headers)
    assert (reply.status, "result" in reply.json) == (400, False)
    assert reply.json["error"]["code"] in (-32700, -32600)
    assert team.server.count("decision", f"context LIKE '%{marker}%'") == 0


@pytest.mark.parametrize("id", [None, {}, [], 1.5, True], ids=str)
def test_call_with_a_malformed_id_does_not_run(team: Team, id: Any):
    marker = uuid.uuid4().hex
    for era in ERAS:
        params = {"name": LOG_DECISION, "arguments": {"title": marker, "body": "b"}}
        body, headers = request("tools/call", params, era=era, id=id)
        reply = _post_message(team, era, json.dumps(body), headers)
        assert reply.status in (202, 400)  # 202: in older revisions the SDK treats it as a notification
    assert team.server.count("decision", f"context LIKE '%{marker}%'") == 0


@pytest.mark.parametrize("id", ["", "x" * 1000, "é\t", 0, -1, 10**30, 2**53 + 1], ids=lambda id: str(id)[:9])
@pytest.mark.parametrize("era", ERAS)
def test_unusual_id_is_returned_unchanged(team: Team, era: str, id: Any):
    body, headers = request("tools/list", era=era, id=id)
    reply = _post_message(team, era, json.dumps(body), headers)
    assert (reply.status, reply.json["id"]) == (200, id)


SURROGATES = {
    "a value": {"title": "\ud800", "body": "b"},
    "the end of a value": {"title": "t", "body": "text\udfff"},
    "a name": {"title": "t", "body": "b", "\udc00": 1},
    "something nested": {"title": "t", "body": {"a": ["\ud83d"]}},
}


@pytest.mark.parametrize("where", SURROGATES)
@pytest.mark.parametrize("streams", [False, True])
def test_unpaired_surrogate_is_rejected_and_logged(team: Team, where: str, streams: bool):
    for era in ERAS:
        meta = {"_meta": {"progressToken": "\udabc"}} if streams else {}
        params = {"name": LOG_DECISION, "arguments": SURROGATES[where], **meta}
        before = team.server.count("decision", "kind = 'error'")
        body, headers = request("tools/call", params, era=era)
        reply = _post_message(team, era, json.dumps(body), headers)
        if era == "legacy":
            assert (reply.status, reply.json["error"]["code"]) == (400, -32700)
        else:
            assert (reply.status, reply.json["result"]["isError"]) == (200, True)
            assert reply.json["result"]["structuredContent"]["error"]["code"] == "INVALID_INPUT"
            assert team.server.count("decision", "kind = 'error'") == before + 1


@pytest.mark.parametrize("era", ERAS)
def test_unicode_text_is_stored_unchanged(either_team: Team, era: str):
    text = "ä€😀\u200b\u2028\u202e\x7f\t\n\r﷽\ufeff\U0010ffff"
    title = "ä€😀\u200b\u202e\x7f\t﷽\ufeff\U0010ffff"  # the same on one line
    team = either_team
    for transport in ("execute", era):
        for line_break in "\n\r\u2028":
            refused = team.ask(transport, "worker_a", LOG_DECISION, {"title": f"a{line_break}b", "body": text})
            assert refused.envelope["error"]["details"]["field"] == "title"
        reply = team.ask(transport, "worker_a", LOG_DECISION, {"title": title, "body": text})
        number = reply.data["logId"].removeprefix("log-")
        assert team.server.rows(f"SELECT decision, reasoning FROM decision WHERE id = {number}") == [(title, text)]
        unknown = team.ask(transport, "worker_a", STATUS, {"ä€😀﷽": 1})
        assert unknown.envelope["error"]["details"]["field"] == "ä€😀﷽"


ACCEPTS = {
    None: 406,
    "": 406,
    "text/html": 406,
    "text/event-stream": 406,
    "application/json": 200,
    "*/*": 200,
    "application/json, text/event-stream": 200,
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("accept", ACCEPTS)
def test_client_must_accept_json(team: Team, era: str, accept: str | None):
    body, headers = request("tools/list", era=era)
    del headers["Accept"]
    if accept is not None:
        headers["Accept"] = accept
    assert _post_message(team, era, json.dumps(body), headers).status == ACCEPTS[accept]


@pytest.mark.parametrize(
    "name",
    ["__proto__", "constructor", "mcp__аgent__get_status", "x" * 500_000, "a\0b", "*", ""],
    ids=lambda name: ascii(name[:30]),
)
@pytest.mark.parametrize("era", ERAS)
def test_unusual_tool_name_is_rejected_and_logged(either_team: Team, era: str, name: str):
    server = either_team.server
    before = server.count("decision", "code = 'TOOL_NOT_FOUND'")
    params = {"name": name, "arguments": {}}
    body, headers = request("tools/call", params, era=era)
    if era != "legacy":
        if len(name) > 100_000:
            return  # the header that repeats it would be rejected for its length
        headers["Mcp-Name"] = _encode_header(name)
    headers |= either_team.headers("worker_a")
    reply = send_request(server.address, "POST", "/mcp", headers.items(), json.dumps(body))
    assert (reply.status, reply.json["result"]["isError"]) == (200, True)
    assert reply.json["result"]["structuredContent"]["error"]["code"] == "TOOL_NOT_FOUND"
    assert len(reply.body) < 2000
    assert server.count("decision", "code = 'TOOL_NOT_FOUND'") == before + 1


def _encode_header(name: str) -> str:
    """Encode a tool name for a header, as the newest revision does."""
    return name if name.isascii() and name.isprintable() and name else f"=?base64?{b64encode(name.encode()).decode()}?="


def _post_message(team: Team, era: str, body: str | bytes, headers: dict[str, str] | None = None) -> Reply:
    sent = headers if headers is not None else request("tools/list", era=era)[1]
    sent = {**sent, **team.headers("worker_a")}
    return send_request(team.server.address, "POST", "/mcp", sent.items(), body)


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/.well-known/anything",
        "/register",
        "/authorize",
        "/token",
        "/sse",
        "/messages",
        "/favicon.ico",
        "/.env",
        "/.shopfloor/operator.token",
        "/../.shopfloor/operator.token",
    ],
)
def test_unknown_path_is_not_found_rather_than_unauthorized(team: Team, path: str):
    for method in ("GET", "POST"):
        assert send_request(team.server.address, method, path, [JSON], "{}").status == 404


FRAMINGS = {
    "a length and chunks": "Content-Length: {n}\r\nTransfer-Encoding: chunked\r\n\r\n{n:x}\r\n{body}\r\n0\r\n\r\n",
    "chunks and a length": "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{n:x}\r\n{body}\r\n0\r\n\r\n",
    "two lengths": "Content-Length: {n}\r\nContent-Length: {n}\r\n\r\n{body}",
    "two lengths that differ": "Content-Length: {n}\r\nContent-Length: 0\r\n\r\n{body}",
    "a list of lengths": "Content-Length: {n}, {n}\r\n\r\n{body}",
    "a length with a sign": "Content-Length: +{n}\r\n\r\n{body}",
    "a length below zero": "Content-Length: -1\r\n\r\n{body}",
    "a length beyond numbers": "Content-Length: 99999999999999999999999999\r\n\r\n{body}",
    "an unknown coding": "Transfer-Encoding: xchunked\r\n\r\n{n:x}\r\n{body}\r\n0\r\n\r\n",
    "a coding behind the chunks": "Transfer-Encoding: chunked, identity\r\n\r\n{n:x}\r\n{body}\r\n0\r\n\r\n",
    "a space before the colon": "Transfer-Encoding : chunked\r\n\r\n{n:x}\r\n{body}\r\n0\r\n\r\n",
    "a folded header": "Transfer-Encoding:\r\n chunked\r\n\r\n{n:x}\r\n{body}\r\n0\r\n\r\n",
    "an invalid chunk size": "Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n",
    "a chunk size beyond numbers": "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{body}\r\n0\r\n\r\n",
    "chunks without returns": "Transfer-Encoding: chunked\r\n\r\n{n:x}\n{body}\n0\n\n",
    "a return in a header": "X-Y: a\rb\r\nContent-Length: {n}\r\n\r\n{body}",
    "a NUL in a header": "X-Y: a\0b\r\nContent-Length: {n}\r\n\r\n{body}",
    "a space in a name": "X Y: a\r\nContent-Length: {n}\r\n\r\n{body}",
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_ambiguous_framing_is_rejected(team: Team, framing: str):
    marker = uuid.uuid4().hex
    body = json.dumps({"toolName": LOG_DECISION, "input": {"title": marker, "body": "b"}})
    rest = FRAMINGS[framing].format(n=len(body), body=body)
    smuggled = _build_raw_request(team, f"Content-Length: {len(body)}\r\n\r\n{body}")
    answer = read_until_closed(team.server.address, (_build_raw_request(team, rest) + smuggled).encode("latin-1"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert team.server.count("decision", f"context LIKE '%{marker}%'") == 0


@pytest.mark.parametrize("codings", ["gzip, chunked", "identity, chunked", "deflate, gzip, chunked"])
def test_coding_that_is_not_undone_is_rejected(team: Team, codings: str):
    marker = uuid.uuid4().hex
    body = json.dumps({"toolName": LOG_DECISION, "input": {"title": marker, "body": "b"}})
    head = f"Transfer-Encoding: {codings}\r\nConnection: close\r\n\r\n"
    sent = _build_raw_request(team, f"{head}{len(body):x}\r\n{body}\r\n0\r\n\r\n")
    answer = read_until_closed(team.server.address, sent.encode())
    assert answer.startswith(b"HTTP/1.1 501 ")
    assert b"Transfer-Encoding is not supported, except chunked" in answer
    assert team.server.count("decision", f"context LIKE '%{marker}%'") == 0


def test_request_smuggled_in_a_rejected_body_does_not_run(team: Team):
    marker = uuid.uuid4().hex
    body = json.dumps({"toolName": LOG_DECISION, "input": {"title": marker, "body": "b"}})
    hidden = _build_raw_request(team, f"Content-Length: {len(body)}\r\n\r\n{body}")
    large = _build_raw_request(team, f"Content-Length: {2**21}\r\nConnection: close\r\n\r\n{hidden}")
    text = _build_raw_request(team, f"Content-Length: {len(hidden)}\r\nConnection: close\r\n\r\n{hidden}").replace(
        "/json", "/text"
    )
    assert read_until_closed(team.server.address, large.encode()).startswith(b"HTTP/1.1 413 ")
    assert read_until_closed(team.server.address, text.encode()).startswith(b"HTTP/1.1 415 ")
    assert team.server.count("decision", f"context LIKE '%{marker}%'") == 0


def test_trailer_is_not_taken_for_a_header(team: Team):
    body, host = json.dumps({"toolName": STATUS, "input": {}}), "Host: evil.example\r\n"
    chunks = f"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n{host}\r\n"
    with_credential = _build_raw_request(team, chunks)
    credential = f"Authorization: Bearer {team.tokens['worker_a']}\r\n"
    without = with_credential.replace(credential, "").replace(host, credential)
    assert read_until_closed(team.server.address, with_credential.encode()).startswith(b"HTTP/1.1 200 ")
    assert read_until_closed(team.server.address, without.encode()).startswith(b"HTTP/1.1 401 ")


def _build_raw_request(team: Team, rest: str) -> str:
    host, port = team.server.address
    return (
        f"POST /mcp/execute HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {team.tokens['worker_a']}\r\n{rest}"
    )


ENDLESS_HEADS = {
    "a header": b"X-Y: ",
    "a name": b"X",
    "a chunk's extension": b"Transfer-Encoding: chunked\r\n\r\n1;x=",
    "a trailer": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Y: ",
}


@pytest.mark.parametrize("what", ENDLESS_HEADS)
def test_endless_head_is_cut_off(team: Team, what: str):
    host, port = team.server.address
    head = f"POST /mcp/execute HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n".encode()
    before = resident_bytes(team.server.pid)
    with socket.create_connection(team.server.address) as connection, pytest.raises(ConnectionError):  # noqa: PT012
        connection.sendall(head + ENDLESS_HEADS[what])
        for _ in range(64):
            connection.sendall(b"a" * 2**20)
    assert resident_bytes(team.server.pid) - before < 8_000_000


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("POST", "/mcp/nowhere"), ("GET", "/.well-known/x")])
def test_unknown_path_has_the_shape_of_other_errors(team: Team, method: str, path: str):
    reply = send_request(team.server.address, method, path, [JSON])
    assert (reply.status, reply.json["success"], reply.json["error"]["code"]) == (404, False, "RESOURCE_NOT_FOUND")
    assert reply.json["error"]["message"] == f"Not found: {path}"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/execute", "/mcp/todo", "/healthz", "/metrics", "/api/chat"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_unsupported_method_lists_the_supported_ones(team: Team, method: str, path: str):
    reply = send_request(team.server.address, method, path, [JSON])
    assert (reply.status, reply.json["error"]["code"]) == (405, "INVALID_INPUT")
    assert reply.json["error"]["details"]["hint"] == f"Use {reply.headers['allow']}"


def test_websocket_upgrade_is_rejected(team: Team):
    upgrade_headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")]
    key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    for path in ("/mcp", "/mcp/execute", "/"):
        assert send_request(team.server.address, "GET", path, [*upgrade_headers, key]).status in (303, 404, 405)


def test_aborted_request_does_not_affect_other_callers(team: Team):
    for half in (
        _build_raw_request(team, "Content-Length: 500\r\n\r\n{"),
        _build_raw_request(team, "Content-Le"),
        "POST /mcp HTTP/1.1\r\n",
    ):
        with socket.create_connection(team.server.address) as connection:
            connection.sendall(half.encode())
    assert team.execute("worker_a", STATUS).status_code == 200


def test_server_is_healthy_after_all_malformed_requests(team: Team):
    assert HTTP.get(f"{team.server.url}/readyz").json() == {"status": "ready", "missing": []}
    assert HTTP.get(f"{team.server.url}/metrics", headers=bearer(team.tokens["operator"])).status_code == 200
    log = team.server.log.read_text()
    assert "Traceback" not in log
    assert "pip install" not in log
    assert not [line for line in log.splitlines() if json.loads(line)["level"] == "error"]
