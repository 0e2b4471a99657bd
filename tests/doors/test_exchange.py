"""A plain call of a tool is answered as the SDK answers it, only sooner."""

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
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers

from shopfloor import Settings, Shopfloor
from shopfloor.transports import exchange
from shopfloor.transports.exchange import plain_call
from tests.serving import Served, served

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
STATUS = "mcp__agent__get_status"
NEWER = "2026-07-28"
SPEC = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}
LOG = "mcp__system__log_decision"
DECISION = {"title": "Chose a queue", "body": "Because of the load"}
_CHANGING = re.compile(r"""\d{4}-\d\d-\d\dT[0-9:.]+Z|ref-\w+|log-\d+|(?<=\\"id\\": )\d+|(?<="task":{"id":)\d+""")
"""What differs between a call and the same call once more."""


def message(name: Any = STATUS, arguments: Any = None, **changes: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": {} if arguments is None else arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params} | changes


def with_params(**changes: Any) -> dict[str, Any]:
    return message(params={"name": STATUS, "arguments": {}} | changes)


PLAIN = [
    message(),
    message(id="a text"),
    message(id=-(2**70)),
    message(LOG, DECISION),
    message(LOG, {}),
    message(LOG, DECISION | {"more": 1}),
    message("no_such_tool"),
    message("mcp__supervisor__create_agent", {"name": "x"}),
    message("context_search", {"query": "x"}),
    message("add_task", {"title": "Buy milk ☕"}),
    message("read_file", {"path": "../etc/passwd"}),
    with_params(_meta={}),
    with_params(_meta={"shopfloor/idempotencyKey": "one"}),
    with_params(_meta={"shopfloor/idempotencyKey": 1}),
    with_params(_meta={"anything": {"at": ["all"]}}),
    message(params={"name": STATUS}),
]
OTHER: list[Any] = [
    message(id=None),
    message(id=True),
    message(id=1.5),
    message(id={}),
    message(method="tools/list", params={}),
    message(method="ping", params={}),
    message(method="no/such"),
    message(jsonrpc="1.0"),
    message(params=None),
    message(params=[]),
    message(more=1),
    message(name=1),
    message(name=None),
    with_params(arguments=[]),
    with_params(arguments="{}"),
    with_params(_meta=[]),
    with_params(_meta={"progressToken": 1}),
    with_params(task={"ttl": 1}),
    {key: value for key, value in message().items() if key != "id"},
    [message()],
    [],
    "text",
    None,
    {},
]


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        Shopfloor(Settings(project=tmp_path_factory.mktemp("exchange"), embeddings="off")) as shop,
        served(shop) as there,
    ):
        yield there


def said(floor: Served, body: bytes, headers: dict[str, str]) -> tuple[int, Any, str | None]:
    reply = httpx2.post(f"{floor.url}/mcp", content=body, headers=headers, timeout=60)
    text, kind = _CHANGING.sub("0", reply.text), reply.headers.get("content-type")
    return reply.status_code, json.loads(text) if kind == "application/json" and text else text, kind


def both(floor: Served, body: bytes, headers: dict[str, str]) -> tuple[Any, Any]:
    """What is said here, and what the SDK says by itself."""
    ours = said(floor, body, headers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "plain_call", lambda *_: None)
        return ours, said(floor, body, headers)


SERVER: Any = SimpleNamespace(get_tool_input_schema=lambda name: {} if name == "mirrored" else None)


def is_plain(body: Any, headers: dict[str, str] = HEADERS) -> bool:
    return plain_call(SERVER, Headers(headers), json.dumps(body).encode()) is not None


def modern(body: dict[str, Any], **meta: Any) -> dict[str, Any]:
    """The same in the stateless era."""
    envelope = {f"{SPEC}protocolVersion": NEWER, f"{SPEC}clientCapabilities": {}, f"{SPEC}clientInfo": CLIENT}
    params = body["params"] | {"_meta": {**envelope, **body["params"].get("_meta", {}), **meta}}
    return body | {"params": params}


def routed(name: str = STATUS, **changes: str) -> dict[str, str]:
    return HEADERS | {"MCP-Protocol-Version": NEWER, "Mcp-Method": "tools/call", "Mcp-Name": name} | changes


@pytest.mark.parametrize("body", PLAIN, ids=lambda body: json.dumps(body)[:60])
def test_a_plain_call_of_the_stateless_era_is_answered_as_by_the_sdk(floor: Served, body: Any):
    body, headers = modern(body), routed(body["params"]["name"])
    assert is_plain(body, headers)
    ours, theirs = both(floor, json.dumps(body).encode(), headers)
    assert ours == theirs


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (message(), routed()),
        (modern(message(), **{f"{SPEC}protocolVersion": "2025-11-25"}), routed()),
        (modern(message()), routed("another")),
        (modern(message()), routed(**{"Mcp-Method": "tools/list"})),
        (modern(message()), HEADERS | {"MCP-Protocol-Version": NEWER}),
        (modern(message("mirrored")), routed("mirrored")),
        (modern(message(), progressToken=1), routed()),
        (modern(with_params(inputResponses={})), routed()),
    ],
)
def test_what_disagrees_with_its_headers_hears_it_from_the_sdk(floor: Served, body: Any, headers: dict[str, str]):
    assert not is_plain(body, headers)
    ours, theirs = both(floor, json.dumps(body).encode(), headers)
    assert ours == theirs


@pytest.mark.parametrize("client", [None, {}, {"name": 1}, "text", {"name": "n", "version": "1", "more": [1]}])
def test_whatever_a_client_says_of_itself(floor: Served, client: Any):
    body = modern(message(), **{f"{SPEC}clientInfo": client, f"{SPEC}clientCapabilities": client})
    ours, theirs = both(floor, json.dumps(body).encode(), routed())
    assert ours == theirs


@pytest.mark.parametrize("body", PLAIN, ids=lambda body: json.dumps(body)[:60])
def test_a_plain_call_is_answered_as_by_the_sdk(floor: Served, body: Any):
    assert is_plain(body)
    ours, theirs = both(floor, json.dumps(body).encode(), HEADERS)
    assert ours == theirs


@pytest.mark.parametrize("body", OTHER, ids=lambda body: json.dumps(body)[:60])
def test_everything_else_takes_the_way_of_the_sdk(floor: Served, body: Any):
    assert not is_plain(body)
    ours, theirs = both(floor, json.dumps(body).encode(), HEADERS)
    assert ours == theirs


@pytest.mark.parametrize("version", [None, *HANDSHAKE_PROTOCOL_VERSIONS, "2026-07-28", "1999-01-01", ""])
def test_in_every_revision(floor: Served, version: str | None):
    named = {} if version is None else {"MCP-Protocol-Version": version}
    assert is_plain(message(), HEADERS | named) == (version in (None, *HANDSHAKE_PROTOCOL_VERSIONS))
    ours, theirs = both(floor, json.dumps(message()).encode(), HEADERS | named)
    assert ours == theirs


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "*/*", "text/html", ""])
def test_who_accepts_something_else_hears_it_from_the_sdk(floor: Served, accept: str):
    assert not is_plain(message(), HEADERS | {"Accept": accept})
    ours, theirs = both(floor, json.dumps(message()).encode(), HEADERS | {"Accept": accept})
    assert ours == theirs


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'{"jsonrpc":"2.0","id":NaN}', b'"\\ud800"', b"[" * 50 + b"]" * 50]
)
def test_what_is_no_json_is_refused_by_the_sdk(floor: Served, body: bytes):
    assert plain_call(SERVER, Headers(HEADERS), body) is None
    ours, theirs = both(floor, body, HEADERS)
    assert ours == theirs


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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_MESSAGES)
def test_whatever_is_sent_the_answer_is_that_of_the_sdk(floor: Served, body: Any):
    ours, theirs = both(floor, json.dumps(body).encode(), HEADERS)
    assert ours == theirs
