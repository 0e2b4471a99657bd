"""Simple tool calls bypass the SDK and get the same response as with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from shopfloor import Settings, Shopfloor
from shopfloor.transports import direct_call
from shopfloor.transports.direct_call import parse_simple_call
from shopfloor.transports.headers import RequestHeaders
from tests.serving import ServedShopfloor, serve_in_thread

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
STATUS = "mcp__agent__get_status"
STATELESS_VERSION = "2026-07-28"
META_PREFIX = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}
LOG = "mcp__system__log_decision"
DECISION = {"title": "Chose a queue", "body": "Because of the load"}
_VARYING = re.compile(r"""\d{4}-\d\d-\d\dT[0-9:.]+Z|ref-\w+|log-\d+|(?<=\\"id\\":)\d+|(?<="task":{"id":)\d+""")
"""Parts that differ between two identical calls."""


def build_call(name: Any = STATUS, arguments: Any = None, **changes: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": {} if arguments is None else arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params} | changes


def build_call_with(**changes: Any) -> dict[str, Any]:
    return build_call(params={"name": STATUS, "arguments": {}} | changes)


SIMPLE_CALLS = [
    build_call(),
    build_call(id="a text"),
    build_call(id=-(2**70)),
    build_call(LOG, DECISION),
    build_call(LOG, {}),
    build_call(LOG, DECISION | {"more": 1}),
    build_call("no_such_tool"),
    build_call("mcp__supervisor__create_agent", {"name": "x"}),
    build_call("context_search", {"query": "x"}),
    build_call("add_task", {"title": "Buy milk ☕"}),
    build_call("read_file", {"path": "../etc/passwd"}),
    build_call_with(_meta={}),
    build_call_with(_meta={"shopfloor/idempotencyKey": "one"}),
    build_call_with(_meta={"shopfloor/idempotencyKey": 1}),
    build_call_with(_meta={"anything": {"at": ["all"]}}),
    build_call(params={"name": STATUS}),
]
OTHER_MESSAGES: list[Any] = [
    build_call(id=None),
    build_call(id=True),
    build_call(id=1.5),
    build_call(id={}),
    build_call(method="tools/list", params={}),
    build_call(method="ping", params={}),
    build_call(method="no/such"),
    build_call(jsonrpc="1.0"),
    build_call(params=None),
    build_call(params=[]),
    build_call(more=1),
    build_call(name=1),
    build_call(name=None),
    build_call_with(arguments=[]),
    build_call_with(arguments="{}"),
    build_call_with(_meta=[]),
    build_call_with(_meta={"progressToken": 1}),
    build_call_with(task={"ttl": 1}),
    {key: value for key, value in build_call().items() if key != "id"},
    [build_call()],
    [],
    "text",
    None,
    {},
]


@pytest.fixture(scope="module")
def shopfloor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedShopfloor]:
    with (
        Shopfloor(Settings(project=tmp_path_factory.mktemp("exchange"), embeddings="off")) as shop,
        serve_in_thread(shop) as served_shopfloor,
    ):
        yield served_shopfloor


def post(shopfloor: ServedShopfloor, body: bytes, headers: dict[str, str]) -> tuple[int, Any, str | None]:
    reply = httpx2.post(f"{shopfloor.url}/mcp", content=body, headers=headers, timeout=300)
    text, kind = _VARYING.sub("0", reply.text), reply.headers.get("content-type")
    return reply.status_code, json.loads(text) if kind == "application/json" and text else text, kind


def post_both_ways(shopfloor: ServedShopfloor, body: bytes, headers: dict[str, str]) -> tuple[Any, Any]:
    """Return the response of the direct path and that of the SDK."""
    ours = post(shopfloor, body, headers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct_call, "parse_simple_call", lambda *_: None)
        return ours, post(shopfloor, body, headers)


SERVER: Any = SimpleNamespace(get_tool_input_schema=lambda name: {} if name == "mirrored" else None)


def is_simple(body: Any, headers: dict[str, str] = HEADERS) -> bool:
    sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return parse_simple_call(SERVER, RequestHeaders(sent), body) is not None


def make_stateless(body: dict[str, Any], **meta: Any) -> dict[str, Any]:
    """Turn a message into one of the stateless era."""
    envelope = {
        f"{META_PREFIX}protocolVersion": STATELESS_VERSION,
        f"{META_PREFIX}clientCapabilities": {},
        f"{META_PREFIX}clientInfo": CLIENT,
    }
    params = body["params"] | {"_meta": {**envelope, **body["params"].get("_meta", {}), **meta}}
    return body | {"params": params}


def build_routing_headers(name: str = STATUS, **changes: str) -> dict[str, str]:
    return HEADERS | {"MCP-Protocol-Version": STATELESS_VERSION, "Mcp-Method": "tools/call", "Mcp-Name": name} | changes


@pytest.mark.parametrize("body", SIMPLE_CALLS, ids=lambda body: json.dumps(body)[:60])
def test_simple_stateless_call_matches_the_sdk(shopfloor: ServedShopfloor, body: Any):
    body, headers = make_stateless(body), build_routing_headers(body["params"]["name"])
    assert is_simple(body, headers)
    ours, theirs = post_both_ways(shopfloor, json.dumps(body).encode(), headers)
    assert ours == theirs


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (build_call(), build_routing_headers()),
        (make_stateless(build_call(), **{f"{META_PREFIX}protocolVersion": "2025-11-25"}), build_routing_headers()),
        (make_stateless(build_call()), build_routing_headers("another")),
        (make_stateless(build_call()), build_routing_headers(**{"Mcp-Method": "tools/list"})),
        (make_stateless(build_call()), HEADERS | {"MCP-Protocol-Version": STATELESS_VERSION}),
        (make_stateless(build_call("mirrored")), build_routing_headers("mirrored")),
        (make_stateless(build_call(), progressToken=1), build_routing_headers()),
        (make_stateless(build_call_with(inputResponses={})), build_routing_headers()),
    ],
)
def test_headers_that_contradict_the_body_are_left_to_the_sdk(
    shopfloor: ServedShopfloor, body: Any, headers: dict[str, str]
):
    assert not is_simple(body, headers)
    ours, theirs = post_both_ways(shopfloor, json.dumps(body).encode(), headers)
    assert ours == theirs


@pytest.mark.parametrize("client", [None, {}, {"name": 1}, "text", {"name": "n", "version": "1", "more": [1]}])
def test_any_client_info_gives_the_response_of_the_sdk(shopfloor: ServedShopfloor, client: Any):
    body = make_stateless(
        build_call(), **{f"{META_PREFIX}clientInfo": client, f"{META_PREFIX}clientCapabilities": client}
    )
    ours, theirs = post_both_ways(shopfloor, json.dumps(body).encode(), build_routing_headers())
    assert ours == theirs


@pytest.mark.parametrize("body", SIMPLE_CALLS, ids=lambda body: json.dumps(body)[:60])
def test_simple_call_matches_the_sdk(shopfloor: ServedShopfloor, body: Any):
    assert is_simple(body)
    ours, theirs = post_both_ways(shopfloor, json.dumps(body).encode(), HEADERS)
    assert ours == theirs


@pytest.mark.parametrize("body", OTHER_MESSAGES, ids=lambda body: json.dumps(body)[:60])
def test_other_messages_are_left_to_the_sdk(shopfloor: ServedShopfloor, body: Any):
    assert not is_simple(body)
    ours, theirs = post_both_ways(shopfloor, json.dumps(body).encode(), HEADERS)
    assert ours == theirs


@pytest.mark.parametrize("version", [None, *HANDSHAKE_PROTOCOL_VERSIONS, "2026-07-28", "1999-01-01", ""])
def test_simple_call_matches_the_sdk_in_every_revision(shopfloor: ServedShopfloor, version: str | None):
    version_header = {} if version is None else {"MCP-Protocol-Version": version}
    assert is_simple(build_call(), HEADERS | version_header) == (version in (None, *HANDSHAKE_PROTOCOL_VERSIONS))
    ours, theirs = post_both_ways(shopfloor, json.dumps(build_call()).encode(), HEADERS | version_header)
    assert ours == theirs


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "*/*", "text/html", ""])
def test_other_accept_headers_are_left_to_the_sdk(shopfloor: ServedShopfloor, accept: str):
    assert not is_simple(build_call(), HEADERS | {"Accept": accept})
    ours, theirs = post_both_ways(shopfloor, json.dumps(build_call()).encode(), HEADERS | {"Accept": accept})
    assert ours == theirs


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'{"jsonrpc":"2.0","id":NaN}', b'"\\ud800', b"[" * 50 + b"]" * 49]
)
def test_invalid_json_never_reaches_the_sdk(shopfloor: ServedShopfloor, body: bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamableHTTPSessionManager, "handle_request", None)
        status, answer, _ = post(shopfloor, body, HEADERS)
    assert (status, answer["error"]["code"]) == (400, -32700)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_MESSAGES = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0") | _JSON,
        "id": st.integers(0, 9) | _JSON,
        "method": st.just("tools/call"),
        "params": st.fixed_dictionaries(
            {"name": st.sampled_from([STATUS, LOG, "add_task", ""]) | _JSON},
            optional={"arguments": st.just(DECISION) | _JSON, "_meta": _JSON},
        )
        | _JSON,
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(_MESSAGES)
def test_random_messages_get_the_response_of_the_sdk(shopfloor: ServedShopfloor, body: Any):
    ours, theirs = post_both_ways(shopfloor, json.dumps(body).encode(), HEADERS)
    assert ours == theirs


def test_key_that_is_named_twice_is_rejected(shopfloor: ServedShopfloor):
    body = json.dumps(build_call()).encode().replace(b"{", b'{"id": 7, ', 1)
    status, answer, _ = post(shopfloor, body, HEADERS)
    assert (status, answer["error"]["message"]) == (400, "The body names a key of an object twice")


def test_responses_are_not_for_shared_caches(shopfloor: ServedShopfloor):
    for message in (build_call(method="tools/list", params={}), build_call()):
        reply = httpx2.post(f"{shopfloor.url}/mcp", json=message, headers=HEADERS, timeout=300)
        assert "private" in reply.headers["cache-control"]
