"""Events sent to webhooks and Inngest, and spans sent to a collector."""

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

from tests.transports.server import WITH_FIXTURES, Server, serving, wait_until

STATUS = "mcp__agent__get_status"
SEND = "mcp__mail__send"
BROKEN = "mcp__fixture__break"
MAIL = {"toAgentId": "local", "subject": "Need Help", "body": "Now"}


@dataclass
class Receiver:
    """A receiver: the requests that it got, and the responses that it gives."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    blocked: threading.Event | None = None
    body: bytes = b"{}"

    def json(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.requests]

    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, headers, _ in self.requests]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if receiver.blocked is not None:
                receiver.blocked.wait(60)
            self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Location", f"{receiver.url}/elsewhere")
            self.send_header("Content-Length", str(len(receiver.body)))
            with suppress(OSError):  # the sender may have disconnected
                self.end_headers()
                self.wfile.write(receiver.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield receiver
    if receiver.blocked is not None:
        receiver.blocked.set()
    server.shutdown()
    server.server_close()
    thread.join()


def count_deliveries(server: Server) -> int:
    return server.count("delivery")


def test_webhook_receives_signed_events(tmp_path: Path, receiver: Receiver):
    with serving(
        tmp_path, webhook_private_addresses="true", webhooks=f"{receiver.url}/hook?key=hush", webhook_secret="shared"
    ) as server:
        server.call(SEND, MAIL)
        wait_until(lambda: receiver.requests and not count_deliveries(server))
        log = server.log.read_text()
    [(path, headers, body)] = receiver.requests
    event = json.loads(body)
    assert (path, event["type"]) == ("/hook?key=hush", "mail.sent")
    assert event["data"] == {"mailId": "mail-1", "toAgentId": "local", "isForHuman": False, "subject": "Need Help"}
    signed_content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    signature = base64.b64encode(hmac.digest(b"shared", signed_content, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{signature}"
    assert "hush" not in log
    assert "shared" not in log


@pytest.mark.parametrize("answer", [500, 302])
def test_failed_delivery_is_retried_with_the_same_id(tmp_path: Path, receiver: Receiver, answer: int):
    receiver.answers = [answer]
    with serving(tmp_path, webhook_private_addresses="true", webhooks=receiver.url) as server:
        server.call(SEND, MAIL)
        wait_until(lambda: len(receiver.requests) == 2 and not count_deliveries(server))
    assert len(set(receiver.ids())) == 1
    assert {path for path, _, _ in receiver.requests} == {"/"}
    assert "webhook-signature" not in receiver.requests[0][1]


def test_delivery_interrupted_by_a_kill_is_sent_after_the_restart(tmp_path: Path, receiver: Receiver):
    receiver.blocked = threading.Event()
    with serving(tmp_path, webhook_private_addresses="true", webhooks=receiver.url) as server:
        server.call(SEND, MAIL)
        wait_until(lambda: receiver.requests)
        server.kill()
        receiver.blocked.set()
        server.execute_sql("UPDATE delivery SET due_at = 0")  # otherwise its lease ends after a minute
        server.start()
        wait_until(lambda: not count_deliveries(server))
    assert len(receiver.requests) == 2
    assert len(set(receiver.ids())) == 1


def test_slow_webhook_delays_nothing_else(tmp_path: Path, receiver: Receiver):
    receiver.blocked = threading.Event()
    with serving(
        tmp_path, program=WITH_FIXTURES, webhook_private_addresses="true", webhooks=f"{receiver.url}/hush"
    ) as server:
        server.call(SEND, MAIL)
        wait_until(lambda: receiver.requests)
        assert server.call(BROKEN, {"text": "x"}).status_code == 500
        wait_until(lambda: server.count("mail", "sender = 'floor'") == 1)
        [(subscriber,)] = server.rows("SELECT DISTINCT subscriber FROM delivery")
        assert server.stop()[0] == 0
        assert not receiver.blocked.is_set()
    assert subscriber.startswith("webhook 127.0.0.1:")
    assert "hush" not in subscriber


def test_unresponsive_webhook_does_not_delay_another(tmp_path: Path, receiver: Receiver):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hooks = f"http://127.0.0.1:{silent.getsockname()[1]},{receiver.url}"
        with serving(tmp_path, webhook_private_addresses="true", webhooks=hooks) as server:
            for _ in range(12):
                server.call(SEND, MAIL)
            wait_until(lambda: len(receiver.requests) == 12)
            assert count_deliveries(server) >= 12


def test_inngest_receives_events_by_name(tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch):
    receiver.body = json.dumps({"ids": ["1"], "status": 200}).encode()
    monkeypatch.setenv("INNGEST_DEV", receiver.url)
    monkeypatch.setenv("INNGEST_EVENT_KEY", "a-key")
    with serving(tmp_path, inngest="true") as server:
        server.call(SEND, MAIL)
        wait_until(lambda: receiver.requests and not count_deliveries(server))
    [(path, _, body)] = receiver.requests
    [event] = json.loads(body)
    assert (path, event["name"]) == ("/e/a-key", "mail.sent")
    assert event["data"] == {"mailId": "mail-1", "toAgentId": "local", "isForHuman": False, "subject": "Need Help"}


# Traces

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    receiver.body = b""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    return receiver


def read_spans(receiver: Receiver) -> list[Any]:
    """Read the spans that were exported, without the server's own calls of the desk when it starts."""
    exported = [ExportTraceServiceRequest.FromString(body) for _, _, body in receiver.requests]
    return [
        span
        for request in exported
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if {each.key: each.value.string_value for each in span.attributes}.get("shopfloor.toolset") != "desk"
    ]


Sent = Callable[[Server], object]


def _call_execute(server: Server) -> None:
    server.call(STATUS, headers={"traceparent": PARENT})


def _call_mcp(server: Server) -> None:
    params = {"name": STATUS, "arguments": {}, "_meta": {"traceparent": PARENT}}
    server.rpc("tools/call", params)


@pytest.mark.parametrize("send", [_call_execute, _call_mcp])
def test_call_is_a_child_span_of_the_callers_span(tmp_path: Path, collector: Receiver, send: Sent):
    with serving(tmp_path, traces="true") as server:
        send(server)
        wait_until(lambda: read_spans(collector))
    [span] = read_spans(collector)
    facts = {each.key: each.value.string_value for each in span.attributes}
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == (
        f"execute_tool {STATUS}",
        PARENT.split("-")[1],
        PARENT.split("-")[2],
    )
    assert (facts["shopfloor.toolset"], facts["shopfloor.caller"]) == ("factory", "agent:local")
    assert span.end_time_unix_nano - span.start_time_unix_nano > 0
    resource = ExportTraceServiceRequest.FromString(collector.requests[-1][2]).resource_spans[0].resource
    assert {each.key: each.value.string_value for each in resource.attributes}["service.name"] == "shopfloor"


def test_rejected_call_has_its_code_in_the_span_and_spans_are_flushed_at_stop(tmp_path: Path, collector: Receiver):
    with serving(tmp_path, traces="true") as server:
        server.call("mcp__no__such", {})
        server.stop()
    [span] = read_spans(collector)
    facts = {each.key: each.value.string_value for each in span.attributes}
    assert (span.name, facts["error.type"]) == ("execute_tool unknown", "TOOL_NOT_FOUND")


def test_unreachable_collector_does_not_delay_the_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with serving(tmp_path, traces="true") as server:
        assert server.call(STATUS).status_code == 200
        assert server.stop()[0] == 0
