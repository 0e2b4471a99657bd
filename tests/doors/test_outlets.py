"""What goes from a floor to other systems: events to web hooks and to Inngest, spans to a collector."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.doors.server import WITH_FIXTURES, Server, serving, until

STATUS = "mcp__agent__get_status"
SEND = "mcp__mail__send"
BROKEN = "mcp__fixture__break"
MAIL = {"toAgentId": "local", "subject": "Need Help", "body": "Now"}


@dataclass
class Heard:
    """Whoever listens out there: what it was sent, and what it answers."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    held: threading.Event | None = None
    body: bytes = b"{}"

    def json(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.requests]

    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, headers, _ in self.requests]


@pytest.fixture
def other_side() -> Iterator[Heard]:
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            heard.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if heard.held is not None:
                heard.held.wait(60)
            self.send_response(heard.answers.pop(0) if heard.answers else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Location", f"{heard.url}/elsewhere")
            self.send_header("Content-Length", str(len(heard.body)))
            with suppress(OSError):  # who asked may be gone
                self.end_headers()
                self.wfile.write(heard.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    heard.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield heard
    if heard.held is not None:
        heard.held.set()
    server.shutdown()
    server.server_close()
    thread.join()


def left(server: Server) -> int:
    return server.count("delivery")


def test_a_web_hook_gets_every_event_signed(tmp_path: Path, other_side: Heard):
    with serving(tmp_path, webhooks=f"{other_side.url}/hook?key=hush", webhook_secret="shared") as server:
        server.call(SEND, MAIL)
        until(lambda: other_side.requests and not left(server))
        log = server.log.read_text()
    [(path, headers, body)] = other_side.requests
    told = json.loads(body)
    assert (path, told["type"]) == ("/hook?key=hush", "mail.sent")
    assert told["data"] == {"mailId": "mail-1", "toAgentId": "local", "isForHuman": False, "subject": "Need Help"}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    right = base64.b64encode(hmac.digest(b"shared", signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{right}"
    assert "hush" not in log
    assert "shared" not in log


@pytest.mark.parametrize("answer", [500, 302])
def test_what_was_not_taken_is_sent_again_under_the_same_id(tmp_path: Path, other_side: Heard, answer: int):
    other_side.answers = [answer]
    with serving(tmp_path, webhooks=other_side.url) as server:
        server.call(SEND, MAIL)
        until(lambda: len(other_side.requests) == 2 and not left(server))
    assert len(set(other_side.ids())) == 1
    assert {path for path, _, _ in other_side.requests} == {"/"}
    assert "webhook-signature" not in other_side.requests[0][1]


def test_what_was_not_sent_before_a_kill_is_sent_after_it(tmp_path: Path, other_side: Heard):
    other_side.held = threading.Event()
    with serving(tmp_path, webhooks=other_side.url) as server:
        server.call(SEND, MAIL)
        until(lambda: other_side.requests)
        server.kill()
        other_side.held.set()
        server.reach_in("UPDATE delivery SET due_at = 0")  # its lease would end in a minute
        server.start()
        until(lambda: not left(server))
    assert len(other_side.requests) == 2
    assert len(set(other_side.ids())) == 1


def test_a_slow_other_side_holds_up_nobody_but_itself(tmp_path: Path, other_side: Heard):
    other_side.held = threading.Event()
    with serving(tmp_path, program=WITH_FIXTURES, webhooks=f"{other_side.url}/hush") as server:
        server.call(SEND, MAIL)
        until(lambda: other_side.requests)
        assert server.call(BROKEN, {"text": "x"}).status_code == 500
        until(lambda: server.count("mail", "sender = 'floor'") == 1)
        [(subscriber,)] = server.rows("SELECT DISTINCT subscriber FROM delivery")
        assert server.stop()[0] == 0
        assert not other_side.held.is_set()
    assert subscriber.startswith("webhook 127.0.0.1:")
    assert "hush" not in subscriber


def test_one_that_does_not_answer_holds_up_no_other(tmp_path: Path, other_side: Heard):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        hooks = f"http://127.0.0.1:{deaf.getsockname()[1]},{other_side.url}"
        with serving(tmp_path, webhooks=hooks) as server:
            for _ in range(12):
                server.call(SEND, MAIL)
            until(lambda: len(other_side.requests) == 12)
            assert left(server) >= 12


def test_inngest_gets_every_event_under_its_own_name(
    tmp_path: Path, other_side: Heard, monkeypatch: pytest.MonkeyPatch
):
    other_side.body = json.dumps({"ids": ["1"], "status": 200}).encode()
    monkeypatch.setenv("INNGEST_DEV", other_side.url)
    monkeypatch.setenv("INNGEST_EVENT_KEY", "a-key")
    with serving(tmp_path, inngest="true") as server:
        server.call(SEND, MAIL)
        until(lambda: other_side.requests and not left(server))
    [(path, _, body)] = other_side.requests
    [event] = json.loads(body)
    assert (path, event["name"]) == ("/e/a-key", "mail.sent")
    assert event["data"] == {"mailId": "mail-1", "toAgentId": "local", "isForHuman": False, "subject": "Need Help"}


# Traces

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector(other_side: Heard, monkeypatch: pytest.MonkeyPatch) -> Heard:
    other_side.body = b""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", other_side.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    return other_side


def spans(heard: Heard) -> list[Any]:
    exported = [ExportTraceServiceRequest.FromString(body) for _, _, body in heard.requests]
    return [
        span
        for request in exported
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


Sent = Callable[[Server], object]


def _executed(server: Server) -> None:
    server.call(STATUS, headers={"traceparent": PARENT})


def _over_mcp(server: Server) -> None:
    params = {"name": STATUS, "arguments": {}, "_meta": {"traceparent": PARENT}}
    server.rpc("tools/call", params)


@pytest.mark.parametrize("send", [_executed, _over_mcp])
def test_a_call_is_a_span_below_the_caller_s_own(tmp_path: Path, collector: Heard, send: Sent):
    with serving(tmp_path, traces="true") as server:
        send(server)
        until(lambda: spans(collector))
    [span] = spans(collector)
    facts = {each.key: each.value.string_value for each in span.attributes}
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == (
        f"execute_tool {STATUS}",
        PARENT.split("-")[1],
        PARENT.split("-")[2],
    )
    assert (facts["shopfloor.toolset"], facts["shopfloor.caller"]) == ("factory", "agent:local")
    assert span.end_time_unix_nano - span.start_time_unix_nano > 0
    resource = ExportTraceServiceRequest.FromString(collector.requests[0][2]).resource_spans[0].resource
    assert {each.key: each.value.string_value for each in resource.attributes}["service.name"] == "shopfloor"


def test_a_refused_call_is_a_span_with_its_code_and_the_last_ones_are_sent_at_the_end(tmp_path: Path, collector: Heard):
    with serving(tmp_path, traces="true") as server:
        server.call("mcp__no__such", {})
        server.stop()
    [span] = spans(collector)
    facts = {each.key: each.value.string_value for each in span.attributes}
    assert (span.name, facts["error.type"]) == ("execute_tool unknown", "TOOL_NOT_FOUND")


def test_a_collector_that_is_away_keeps_no_floor_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with serving(tmp_path, traces="true") as server:
        assert server.call(STATUS).status_code == 200
        assert server.stop()[0] == 0
