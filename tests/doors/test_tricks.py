"""Requests that nobody sends by accident: each is refused as it should be, changes nothing, and harms nobody else."""

from __future__ import annotations

import json
import socket
import uuid
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import pytest

from tests.doors.server import ERAS, HTTP, bearer, request, resident
from tests.doors.team import LOG_DECISION, STATUS, Team
from tests.doors.wire import Header, Reply, exchange, replies

JSON = ("Content-Type", "application/json")
ACCEPT = ("Accept", "application/json, text/event-stream")
DEEP = 64


@dataclass(frozen=True)
class Trick:
    """A request and the statuses that may answer it. {port}, {token} and {marker} are filled in."""

    name: str
    status: int
    headers: tuple[Header, ...] = ()
    target: str = "/mcp/execute"
    method: str = "POST"
    host: bool = True
    kind: bool = True

    def play(self, team: Team, marker: str) -> Reply:
        facts = {"{port}": str(team.server.address[1]), "{token}": team.tokens["worker_a"], "{marker}": marker}
        headers = [*([JSON] if self.kind else []), ("Authorization", "Bearer {token}"), *self.headers]
        filled = [(name, _filled(value, facts)) for name, value in headers]
        body = json.dumps({"toolName": LOG_DECISION, "input": {"title": marker, "body": "b"}})
        target = _filled(self.target, facts)
        return exchange(team.server.address, self.method, target, filled, body, host=self.host)


def _filled(text: str, facts: dict[str, str]) -> str:
    for name, value in facts.items():
        text = text.replace(name, value)
    return text


def host(name: str, value: str, status: int = 421) -> Trick:
    return Trick(f"host {name}", status, (("Host", value),), host=False)


def origin(name: str, *values: str, status: int = 403) -> Trick:
    return Trick(f"origin {name}", status, tuple(("Origin", value) for value in values))


def content(name: str, *values: str, status: int = 415) -> Trick:
    return Trick(f"content type {name}", status, tuple(("Content-Type", value) for value in values), kind=False)


GATE = [
    host("of nobody", ""),
    host("with userinfo before", "127.0.0.1@evil.example:{port}"),
    host("with userinfo", "evil.example@127.0.0.1:{port}"),
    host("with a dot at its end", "localhost.:{port}"),
    host("as a number", "2130706433:{port}"),
    host("of every address", "0.0.0.0:{port}"),
    host("that begins like ours", "localhost.evil.example:{port}"),
    host("that ends like ours", "evil-localhost:{port}"),
    host("in brackets and more", "[::1]evil.example:{port}"),
    host("with a name for a port", "localhost:evil.example"),
    host("with two ports", "localhost:{port}:80"),
    host("with a space", "127.0.0.1 evil.example"),
    host("with a comma", "127.0.0.1,evil.example"),
    host("with a path", "127.0.0.1/evil.example"),
    host("that is a page", "http://127.0.0.1:{port}"),
    host("of ours in capitals", "LOCALHOST:{port}", 200),
    host("of ours on another port", "127.0.0.1:1", 200),
    Trick("host missing", 421, host=False),
    Trick("host twice", 421, (("Host", "evil.example"),)),
    Trick("host twice the same", 421, (("Host", "127.0.0.1:{port}"),)),
    Trick("a host behind a proxy that is not asked", 200, (("X-Forwarded-Host", "evil.example"),)),
    origin("null", "null"),
    origin("empty", ""),
    origin("of a file", "file://"),
    origin("of an extension", "chrome-extension://abcdefgh"),
    origin("of another port", "http://127.0.0.1:1"),
    origin("that begins like ours", "http://127.0.0.1:{port}.evil.example"),
    origin("with a slash", "http://127.0.0.1:{port}/"),
    origin("with userinfo", "http://127.0.0.1:{port}@evil.example"),
    origin("by another name of ours", "http://localhost:{port}"),
    origin("of ours, then another", "http://127.0.0.1:{port}", "https://evil.example"),
    origin("of another, then ours", "https://evil.example", "http://127.0.0.1:{port}"),
    origin("of ours", "http://127.0.0.1:{port}", status=200),
    *(
        Trick(f"a fetch from {site!r}", 403, (("Sec-Fetch-Site", site),))
        for site in ("cross-site", "same-site", "", "x")
    ),
    Trick("a fetch that says two things", 403, (("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site"))),
    Trick("a navigation that posts", 403, (("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"))),
    Trick("a fetch from our own page", 200, (("Sec-Fetch-Site", "same-origin"),)),
    content("missing"),
    content("empty", ""),
    content("of a form", "application/x-www-form-urlencoded"),
    content("that begins like JSON", "application/jsonx"),
    content("of another JSON", "application/ld+json"),
    content("of two kinds in one", "application/json, text/plain"),
    content("of a parameter", "text/plain; application/json"),
    content("JSON, then text", "application/json", "text/plain"),
    content("text, then JSON", "text/plain", "application/json"),
    content("JSON twice", "application/json", "application/json"),
    content("JSON in capitals", "APPLICATION/JSON", status=200),
    content("JSON with an odd charset", "application/json; charset=x", status=200),
    *(
        Trick(f"a body in {coding}", 415, (("Content-Encoding", coding),))
        for coding in ("gzip", "br", "identity, gzip", "")
    ),
    Trick("a body as it is", 200, (("Content-Encoding", " Identity "),)),
]

PATHS = [
    *(Trick(f"{method} does nothing", 405, method=method) for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")),
    *(Trick(f"{method} does nothing", 405, method=method) for method in ("PATCH", "TRACE")),
    *(Trick(f"{method} is no method", 400, method=method) for method in ("post", "FOO")),
    *(Trick(f"{method} on MCP", 405, target="/mcp", method=method) for method in ("GET", "HEAD", "DELETE", "OPTIONS")),
    Trick("two slashes", 404, target="//mcp/execute"),
    Trick("two slashes inside", 404, target="/mcp//execute"),
    Trick("another host in the path", 404, target="//evil.example/mcp/execute"),
    Trick("a dot", 404, target="/mcp/./execute"),
    Trick("two dots", 404, target="/mcp/x/../execute"),
    Trick("two encoded dots", 404, target="/mcp/%2e%2e/mcp/execute"),
    Trick("capitals", 404, target="/MCP/EXECUTE"),
    Trick("a parameter", 404, target="/mcp/execute;x"),
    Trick("an encoded NUL", 404, target="/mcp/execute%00"),
    Trick("an encoded space", 404, target="/mcp/execute%20"),
    Trick("an encoded line", 404, target="/mcp/execute%0d%0aX:y"),
    Trick("broken encoding", 404, target="/mcp/execute%zz"),
    Trick("bytes that are no text", 400, target="/mcp/\xff"),
    Trick("a backslash", 404, target="/mcp/execute\\"),
    Trick("no slash", 400, target="mcp/execute"),
    Trick("a star", 404, target="*"),
    Trick("a slash at the end", 307, target="/mcp/execute/"),
    Trick("a toolset without a door", 404, target="/mcp/todo_direct"),
    Trick("a toolset that is none", 404, target="/mcp/__class__"),
    Trick("an encoded letter", 200, target="/mcp/%65xecute"),
    Trick("a query", 200, target="/mcp/execute?toolName=x"),
    Trick("an absolute target of ours", 200, target="http://127.0.0.1:{port}/mcp/execute"),
    Trick("an absolute target of another", 421, target="http://evil.example/mcp/execute"),
    Trick("an absolute target of another on our port", 421, target="http://evil.example:{port}/mcp/execute"),
    Trick("an absolute target with userinfo", 421, target="http://127.0.0.1@evil.example/mcp/execute"),
]

TOKENS = [
    ("no scheme", "{token}"),
    ("nothing", ""),
    ("only the scheme", "Bearer"),
    ("only spaces", "Bearer   "),
    ("another scheme", "Basic {token}"),
    ("a tab", "Bearer\t{token}"),
    ("something behind it", "Bearer {token} x"),
    ("two of them in one", "Bearer {token}, Bearer {token}"),
    ("quotes", 'Bearer "{token}"'),
    ("a kilometre", "Bearer " + "a" * 60_000),
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


@pytest.mark.parametrize("trick", [*GATE, *PATHS], ids=lambda trick: trick.name)
def test_a_trick_at_the_gate(team: Team, trick: Trick):
    marker = uuid.uuid4().hex
    reply = trick.play(team, marker)
    assert reply.status == trick.status
    made = team.server.count("decision", f"kind = 'manual' AND decision = '{marker}'")
    logged = team.server.count("decision", f"context LIKE '%{marker}%'")
    assert (made, logged) == ((1, 1) if trick.status == 200 else (0, 0))


@pytest.mark.parametrize("door", ["/mcp/execute", "/mcp", "/mcp/factory"])
@pytest.mark.parametrize(("name", "value"), TOKENS, ids=[name for name, _ in TOKENS])
def test_what_is_no_token_opens_no_door(team: Team, door: str, name: str, value: str):
    token = team.tokens["worker_a"]
    shown = value.replace("{token}", token).replace("{tail}", token.removeprefix("sfa"))
    reply = exchange(team.server.address, "POST", door, [JSON, ACCEPT, ("Authorization", shown)], _body())
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == 'Bearer realm="shopfloor", error="invalid_token"'
    assert token not in reply.body.decode()


@pytest.mark.parametrize("door", ["/mcp/execute", "/mcp"])
def test_a_token_elsewhere_than_in_its_header_is_none(team: Team, door: str):
    token = team.tokens["worker_a"]
    places = [("Cookie", f"token={token}"), ("X-Authorization", f"Bearer {token}"), ("Mcp-Session-Id", token)]
    reply = exchange(team.server.address, "POST", f"{door}?access_token={token}", [JSON, ACCEPT, *places], _body())
    assert reply.status == 401


@pytest.mark.parametrize("second", ["{token}", "x", ""])
def test_two_credentials_are_none(team: Team, second: str):
    token = team.tokens["worker_a"]
    shown = [("Authorization", f"Bearer {one}") for one in (token, second.replace("{token}", token))]
    for order in (shown, shown[::-1]):
        assert exchange(team.server.address, "POST", "/mcp/execute", [JSON, *order], _body()).status == 401


def test_a_scheme_may_be_written_as_one_likes(team: Team):
    for scheme in ("bearer", "BEARER", "Bearer "):
        shown = ("Authorization", f"{scheme} {team.tokens['worker_a']}")
        assert exchange(team.server.address, "POST", "/mcp/execute", [JSON, shown], _body()).status == 200


def _body(tool: str = STATUS, **fields: Any) -> str:
    return json.dumps({"toolName": tool, "input": {}, **fields})


def nested(depth: int) -> str:
    """A call whose JSON nests that deep."""
    arrays = "[" * (depth - 2) + "]" * (depth - 2)
    return f'{{"toolName": "{LOG_DECISION}", "input": {{"title": "t", "body": {arrays}}}}}'


BODIES: dict[str, tuple[int, bytes | str]] = {
    "nothing": (400, ""),
    "half an object": (400, '{"toolName":'),
    "null": (400, "null"),
    "a list": (400, "[]"),
    "a batch": (400, f"[{_body()},{_body()}]"),
    "text": (400, '"toolName"'),
    "two documents": (400, _body() * 2),
    "a comma too many": (400, '{"toolName": "x",}'),
    "a comment": (400, f"/**/{_body()}"),
    "single quotes": (400, "{'toolName': 'x'}"),
    "a byte order mark": (400, b"\xef\xbb\xbf" + _body().encode()),
    "UTF-16": (400, _body().encode("utf-16")),
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
    "64 levels": (422, nested(DEEP)),
    "65 levels": (400, nested(DEEP + 1)),
    "300,000 levels": (400, "[" * 300_000),
    "levels behind an escaped quote": (400, '{"a":"\\\\","b":' + "[" * 80),
    "no tool": (400, "{}"),
    "an empty tool": (400, '{"toolName":""}'),
    "a list of tools": (400, f'{{"toolName":["{STATUS}"]}}'),
    "__proto__ as the tool": (404, _body("__proto__")),
    "__class__ as the tool": (404, _body("__class__")),
    "constructor as the tool": (404, _body("constructor")),
    "a look-alike letter": (404, _body(STATUS.replace("a", "а"))),  # a Cyrillic one
    "capitals": (404, _body(STATUS.upper())),
    "a space behind the tool": (404, _body(f"{STATUS} ")),
    "a NUL in the tool": (404, _body(f"{STATUS}\0")),
    "a pattern as the tool": (404, _body("mcp__*")),
    "half a megabyte as the tool": (404, _body("x" * 500_000)),
    "a list as the input": (422, _body(input=[])),
    "false as the input": (422, _body(input=False)),
    "an unknown field": (400, _body(admin=True)),
    "__proto__ as a field": (400, _body(__proto__={"agentId": "supervisor"})),
    "a number as the agent": (400, _body(agentId=1)),
    "a query as the agent": (400, _body(agentId={"$ne": None})),
    "an empty agent": (400, _body(agentId="")),
    "the agent in capitals": (403, _body(agentId="WORKER_A")),
    "a space behind the agent": (403, _body(agentId="worker_a ")),
    "a wildcard as the agent": (403, _body(agentId="*")),
    "a second agent": (403, f'{{"agentId":"worker_a","agentId":"supervisor","toolName":"{STATUS}"}}'),
    "a number as the key": (400, _body(idempotencyKey=1)),
    "an empty key": (422, _body(idempotencyKey="")),
    "a line in the key": (422, _body(idempotencyKey="a\nb")),
    "a NUL in the key": (422, _body(idempotencyKey="a\0b")),
    "a key too long": (422, _body(idempotencyKey="k" * 256)),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_trick_in_the_body(team: Team, name: str):
    status, body = BODIES[name]
    before = team.server.count("decision", "kind = 'manual'")
    shown = ("Authorization", f"Bearer {team.tokens['worker_a']}")
    reply = exchange(team.server.address, "POST", "/mcp/execute", [JSON, shown], body)
    assert reply.status == status
    assert reply.json.keys() == {"success", "error", "timestamp"}
    assert reply.json["success"] is False
    assert reply.json["error"].keys() == {"code", "message", "details"}
    assert len(reply.body) < 2000
    assert team.server.count("decision", "kind = 'manual'") == before


@pytest.mark.parametrize("name", BODIES)
def test_a_stranger_is_asked_for_a_credential_whatever_the_body(team: Team, name: str):
    _, body = BODIES[name]
    before = team.server.count("decision")
    reply = exchange(team.server.address, "POST", "/mcp/execute", [JSON], body)
    assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer realm="shopfloor"')
    assert reply.json["error"]["code"] == "PERMISSION_DENIED"
    assert team.server.count("decision") == before


AROUND: dict[str, dict[str, Any]] = {
    "an unknown field": {"admin": True},
    "another caller's field": {"user_id": "user_a"},
    "a number as the agent": {"agentId": 1},
    "a list of agents": {"agentId": ["worker_a", "supervisor"]},
    "an empty agent": {"agentId": ""},
    "a number as the key": {"idempotencyKey": 1},
}


@pytest.mark.parametrize("name", AROUND)
def test_what_is_wrong_around_a_call_is_in_the_log(either_team: Team, name: str):
    marker = uuid.uuid4().hex
    given = {"title": marker, "body": "b"}
    reply = either_team.execute("worker_a", LOG_DECISION, given, **AROUND[name])
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")
    rows = either_team.server.rows(
        "SELECT kind, subject, code FROM decision WHERE reference IN"
        f" (SELECT reference FROM decision WHERE context LIKE '%{marker}%') ORDER BY id"
    )
    assert rows == [("invocation", "agent:worker_a", None), ("error", "agent:worker_a", "INVALID_INPUT")]


def test_keys_that_contradict_each_other_are_refused(team: Team):
    shown = ("Authorization", f"Bearer {team.tokens['worker_a']}")
    key = "Idempotency-Key"
    for headers, body in [
        ([(key, "one"), (key, "two")], _body()),
        ([(key, "one")], _body(idempotencyKey="two")),
    ]:
        assert exchange(team.server.address, headers=[JSON, shown, *headers], body=body).status == 400
    assert exchange(team.server.address, headers=[JSON, shown, (key, "")], body=_body()).status == 422
    same = [(key, "one "), (key, " one")]
    assert exchange(team.server.address, headers=[JSON, shown, *same], body=_body(idempotencyKey="one")).status == 200


def rpc(**parts: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}, **parts})


MESSAGES: dict[str, str | bytes] = {
    "nothing": "",
    "half an object": "{",
    "null": "null",
    "a batch": f"[{rpc()},{rpc()}]",
    "an empty batch": "[]",
    "text": '"tools/list"',
    "no version": '{"id": 1, "method": "tools/list"}',
    "another version": rpc(jsonrpc="1.0"),
    "a number as the method": rpc(method=1),
    "a list as the parameters": rpc(params=[]),
    "65 levels": "[" * 65 + "]" * 65,
    "300,000 levels": "[" * 300_000,
    "bytes that are no text": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "UTF-16": rpc().encode("utf-16"),
    "two documents": rpc() * 2,
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", MESSAGES)
def test_a_malformed_message_is_a_protocol_error(team: Team, era: str, name: str):
    reply = _message(team, era, MESSAGES[name])
    assert reply.status == 400
    assert reply.json["error"]["code"] in (-32700, -32600, -32602)
    assert "result" not in reply.json


@pytest.mark.parametrize("id", [None, {}, [], 1.5, True], ids=str)
def test_a_malformed_id_runs_nothing(team: Team, id: Any):
    marker = uuid.uuid4().hex
    for era in ERAS:
        params = {"name": LOG_DECISION, "arguments": {"title": marker, "body": "b"}}
        body, headers = request("tools/call", params, era=era, id=id)
        reply = _message(team, era, json.dumps(body), headers)
        assert reply.status in (202, 400)  # 202: the SDK takes it for a notification in the older revisions
    assert team.server.count("decision", f"context LIKE '%{marker}%'") == 0


@pytest.mark.parametrize("id", ["", "x" * 1000, "é\t", 0, -1, 10**30, 2**53 + 1], ids=lambda id: str(id)[:9])
@pytest.mark.parametrize("era", ERAS)
def test_an_odd_id_comes_back_as_it_was(team: Team, era: str, id: Any):
    body, headers = request("tools/list", era=era, id=id)
    reply = _message(team, era, json.dumps(body), headers)
    assert (reply.status, reply.json["id"]) == (200, id)


HALF = {
    "a value": {"title": "\ud800", "body": "b"},
    "the end of a value": {"title": "t", "body": "text\udfff"},
    "a name": {"title": "t", "body": "b", "\udc00": 1},
    "something nested": {"title": "t", "body": {"a": ["\ud83d"]}},
}


@pytest.mark.parametrize("where", HALF)
@pytest.mark.parametrize("streams", [False, True])
def test_half_a_surrogate_pair_is_refused_and_logged(team: Team, where: str, streams: bool):
    for era in ERAS:
        meta = {"_meta": {"progressToken": "\udabc"}} if streams else {}
        params = {"name": LOG_DECISION, "arguments": HALF[where], **meta}
        before = team.server.count("decision", "kind = 'error'")
        body, headers = request("tools/call", params, era=era)
        reply = _message(team, era, json.dumps(body), headers)
        if era == "legacy":
            assert (reply.status, reply.json["error"]["code"]) == (400, -32700)
            continue
        assert (reply.status, reply.json["result"]["isError"]) == (200, True)
        assert reply.json["result"]["structuredContent"]["error"]["code"] == "INVALID_INPUT"
        assert team.server.count("decision", "kind = 'error'") == before + 1


@pytest.mark.parametrize("era", ERAS)
def test_text_of_every_plane_goes_in_and_comes_out(either_team: Team, era: str):
    text = "ä€😀\u200b\u2028\u202e\x7f\t\n\r﷽\ufeff\U0010ffff"
    team = either_team
    for door in ("execute", era):
        made = team.ask(door, "worker_a", LOG_DECISION, {"title": text, "body": text})
        number = made.data["logId"].removeprefix("log-")
        assert team.server.rows(f"SELECT decision, reasoning FROM decision WHERE id = {number}") == [(text, text)]
        unknown = team.ask(door, "worker_a", STATUS, {"ä€😀﷽": 1})
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
def test_a_client_must_take_json(team: Team, era: str, accept: str | None):
    body, headers = request("tools/list", era=era)
    del headers["Accept"]
    if accept is not None:
        headers["Accept"] = accept
    assert _message(team, era, json.dumps(body), headers).status == ACCEPTS[accept]


@pytest.mark.parametrize("name", ["__proto__", "constructor", "mcp__аgent__get_status", "x" * 500_000, "a\0b", "*", ""])
@pytest.mark.parametrize("era", ERAS)
def test_an_odd_tool_name_is_a_refusal_in_the_log(either_team: Team, era: str, name: str):
    server = either_team.server
    before = server.count("decision", "code = 'TOOL_NOT_FOUND'")
    params = {"name": name, "arguments": {}}
    body, headers = request("tools/call", params, era=era)
    if era != "legacy":
        if len(name) > 100_000:
            return  # it would have to be repeated in a header, which is refused for its length
        headers["Mcp-Name"] = _in_header(name)
    headers |= either_team.headers("worker_a")
    reply = exchange(server.address, "POST", "/mcp", headers.items(), json.dumps(body))
    assert (reply.status, reply.json["result"]["isError"]) == (200, True)
    assert reply.json["result"]["structuredContent"]["error"]["code"] == "TOOL_NOT_FOUND"
    assert len(reply.body) < 2000
    assert server.count("decision", "code = 'TOOL_NOT_FOUND'") == before + 1


def _in_header(name: str) -> str:
    """A name as the newest revision puts it into a header."""
    return name if name.isascii() and name.isprintable() and name else f"=?base64?{b64encode(name.encode()).decode()}?="


def _message(team: Team, era: str, body: str | bytes, headers: dict[str, str] | None = None) -> Reply:
    sent = headers if headers is not None else request("tools/list", era=era)[1]
    sent = {**sent, **team.headers("worker_a")}
    return exchange(team.server.address, "POST", "/mcp", sent.items(), body)


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
def test_what_is_not_served_is_not_found_rather_than_unauthorised(team: Team, path: str):
    for method in ("GET", "POST"):
        assert exchange(team.server.address, method, path, [JSON], "{}").status == 404


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
    "a chunk size that is none": "Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n",
    "a chunk size beyond numbers": "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{body}\r\n0\r\n\r\n",
    "chunks without returns": "Transfer-Encoding: chunked\r\n\r\n{n:x}\n{body}\n0\n\n",
    "a return in a header": "X-Y: a\rb\r\nContent-Length: {n}\r\n\r\n{body}",
    "a NUL in a header": "X-Y: a\0b\r\nContent-Length: {n}\r\n\r\n{body}",
    "a space in a name": "X Y: a\r\nContent-Length: {n}\r\n\r\n{body}",
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_request_with_two_ends_is_no_request(team: Team, framing: str):
    marker = uuid.uuid4().hex
    body = json.dumps({"toolName": LOG_DECISION, "input": {"title": marker, "body": "b"}})
    rest = FRAMINGS[framing].format(n=len(body), body=body)
    smuggled = _raw(team, f"Content-Length: {len(body)}\r\n\r\n{body}")
    answer = replies(team.server.address, (_raw(team, rest) + smuggled).encode("latin-1"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert team.server.count("decision", f"context LIKE '%{marker}%'") == 0


def test_what_follows_a_refused_request_is_its_body(team: Team):
    marker = uuid.uuid4().hex
    body = json.dumps({"toolName": LOG_DECISION, "input": {"title": marker, "body": "b"}})
    hidden = _raw(team, f"Content-Length: {len(body)}\r\n\r\n{body}")
    large = _raw(team, f"Content-Length: {2**21}\r\nConnection: close\r\n\r\n{hidden}")
    text = _raw(team, f"Content-Length: {len(hidden)}\r\nConnection: close\r\n\r\n{hidden}").replace("/json", "/text")
    assert replies(team.server.address, large.encode()).startswith(b"HTTP/1.1 413 ")
    assert replies(team.server.address, text.encode()).startswith(b"HTTP/1.1 415 ")
    assert team.server.count("decision", f"context LIKE '%{marker}%'") == 0


def _raw(team: Team, rest: str) -> str:
    host, port = team.server.address
    return (
        f"POST /mcp/execute HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {team.tokens['worker_a']}\r\n{rest}"
    )


ENDLESS = {
    "a header": b"X-Y: ",
    "a name": b"X",
    "a chunk's extension": b"Transfer-Encoding: chunked\r\n\r\n1;x=",
    "a trailer": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Y: ",
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_head_without_an_end_is_cut_off(team: Team, what: str):
    host, port = team.server.address
    head = f"POST /mcp/execute HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n".encode()
    before = resident(team.server.pid)
    with socket.create_connection(team.server.address) as connection, pytest.raises(ConnectionError):  # noqa: PT012
        connection.sendall(head + ENDLESS[what])
        for _ in range(64):
            connection.sendall(b"a" * 2**20)
    assert resident(team.server.pid) - before < 8_000_000


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("POST", "/mcp/nowhere"), ("GET", "/.well-known/x")])
def test_what_is_not_there_is_told_in_the_shape_of_every_refusal(team: Team, method: str, path: str):
    reply = exchange(team.server.address, method, path, [JSON])
    assert (reply.status, reply.json["success"], reply.json["error"]["code"]) == (404, False, "RESOURCE_NOT_FOUND")
    assert reply.json["error"]["message"] == f"There is nothing at {path}"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/execute", "/mcp/todo", "/healthz", "/metrics", "/api/chat"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_another_method_is_told_which_ones_there_are(team: Team, method: str, path: str):
    reply = exchange(team.server.address, method, path, [JSON])
    assert (reply.status, reply.json["error"]["code"]) == (405, "INVALID_INPUT")
    assert reply.json["error"]["details"]["hint"] == f"Use {reply.headers['allow']}"


def test_a_websocket_is_not_opened(team: Team):
    wanted = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")]
    key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    for path in ("/mcp", "/mcp/execute", "/"):
        assert exchange(team.server.address, "GET", path, [*wanted, key]).status in (303, 404, 405)


def test_a_caller_who_hangs_up_in_the_middle_harms_nobody(team: Team):
    for half in (_raw(team, "Content-Length: 500\r\n\r\n{"), _raw(team, "Content-Le"), "POST /mcp HTTP/1.1\r\n"):
        with socket.create_connection(team.server.address) as connection:
            connection.sendall(half.encode())
    assert team.execute("worker_a", STATUS).status_code == 200


def test_the_server_has_survived_all_this(team: Team):
    assert HTTP.get(f"{team.server.url}/readyz").json() == {"status": "ready", "missing": []}
    assert HTTP.get(f"{team.server.url}/metrics", headers=bearer(team.tokens["operator"])).status_code == 200
    log = team.server.log.read_text()
    assert "Traceback" not in log
    assert "pip install" not in log
    assert not [line for line in log.splitlines() if json.loads(line)["level"] == "error"]
