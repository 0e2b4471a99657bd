"""POST /mcp/execute returns the envelope of the factory contract and a matching HTTP status."""

from __future__ import annotations

import json
import re
import threading
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.postgres import PostgresServer
from tests.transports.server import ERAS, HTTP, Server, bearer, serving, wait_until
from tests.transports.team import LOG_DECISION, STATUS, Team

DECISION = {"title": "Chose a queue", "body": "Because of the load"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_examples_of_the_contract_work_as_printed(open_server: Server):
    decision = {
        "title": "Chose implementation approach",
        "body": "Decided to use Redis for caching instead of in-memory cache for better scalability",
    }
    body = {"agentId": "worker-123", "toolName": LOG_DECISION, "input": decision}
    reply = HTTP.post(f"{open_server.url}/mcp/execute", json=body)
    answer = reply.json()
    number = answer["data"]["logId"].removeprefix("log-")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert answer == {
        "success": True,
        "data": {"logId": f"log-{number}", "timestamp": answer["data"]["timestamp"]},
        "timestamp": answer["timestamp"],
    }
    assert TIME.fullmatch(answer["timestamp"])
    assert TIME.fullmatch(answer["data"]["timestamp"])
    rows = open_server.rows(f"SELECT decision, reasoning, subject FROM decision WHERE id = {number}")
    assert rows == [(decision["title"], decision["body"], "agent:worker-123")]


def test_status_has_exactly_the_fields_of_the_contract(either_team: Team):
    token = either_team.server.agent("fresh")  # other tests of the session send mail to the team's own agents
    answer = either_team.server.call(STATUS, token=token, agentId="fresh").json()
    data = answer.pop("data")
    times = {data.pop(name) for name in ("lastActiveAt", "createdAt", "updatedAt")} | {answer.pop("timestamp")}
    assert answer == {"success": True}
    assert data == {
        "id": "fresh",
        "type": "WORKER",
        "state": "IDLE",
        "currentEpicId": None,
        "currentTaskId": None,
        "tmuxSessionName": None,
    }
    assert all(TIME.fullmatch(time) for time in times)


def test_each_error_has_its_http_status_and_the_same_shape(fixture_team: Team, tmp_path: Path):
    key = uuid.uuid4().hex
    fixture_team.execute("supervisor", LOG_DECISION, DECISION, key=key)
    ask = fixture_team.execute
    responses = {
        (400, "INVALID_INPUT"): _post(fixture_team, content=b"{"),
        (401, "PERMISSION_DENIED"): ask(None, STATUS),
        (403, "PERMISSION_DENIED"): ask("worker_a", "mcp__fixture__refuse"),
        (404, "TOOL_NOT_FOUND"): ask("worker_a", "mcp__nope__nope"),
        (404, "AGENT_NOT_FOUND"): ask("operator", STATUS, agentId="ghost"),
        (409, "INVALID_INPUT"): ask("supervisor", LOG_DECISION, {**DECISION, "title": "Other"}, key=key),
        (409, "INVALID_AGENT_STATE"): ask("supervisor", "mcp__fixture__refuse"),
        (413, "INVALID_INPUT"): _post(fixture_team, content=b" " * (2**20 + 1)),
        (415, "INVALID_INPUT"): _post(fixture_team, content=b"{}", headers={"Content-Type": "text/plain"}),
        (421, "PERMISSION_DENIED"): _post(fixture_team, content=b"{}", headers={"Host": "evil.example"}),
        (422, "INVALID_INPUT"): ask("worker_a", LOG_DECISION, {"title": ""}),
        (500, "INTERNAL_ERROR"): ask("supervisor", "mcp__fixture__break", {"text": "secret-detail"}),
        (503, "TRANSIENT_ERROR"): ask("supervisor", "mcp__fixture__hiccup"),
    }
    for (status, code), reply in responses.items():
        body = reply.json()
        assert (reply.status_code, body["error"]["code"]) == (status, code)
        assert body.keys() == {"success", "error", "timestamp"}
        assert body["success"] is False
        assert body["error"].keys() == {"code", "message", "details"}
        assert isinstance(body["error"]["details"], dict)
        assert TIME.fullmatch(body["timestamp"])
        assert ("retry-after" in reply.headers) == (status == 503)
        assert ("www-authenticate" in reply.headers) == (status == 401)
        assert "Traceback" not in reply.text
        assert "secret-detail" not in reply.text


def _post(team: Team, **request: Any) -> httpx2.Response:
    headers = {"Content-Type": "application/json", **bearer(team.tokens["worker_a"]), **request.pop("headers", {})}
    return HTTP.post(f"{team.server.url}/mcp/execute", headers=headers, **request)


def test_internal_error_has_a_reference_to_its_stack_trace(fixture_team: Team):
    reply = fixture_team.execute("supervisor", "mcp__fixture__break", {"text": "the-cause"})
    details = reply.json()["error"]["details"]
    number = int(details["reference"].removeprefix("ref-"), 36)
    assert details["reference"] in details["hint"]
    [(stack,)] = fixture_team.server.rows(f"SELECT stack FROM decision WHERE kind = 'error' AND reference = {number}")
    assert "RuntimeError: broken: the-cause" in stack
    assert fixture_team.server.count("escalation", "tool = 'mcp__fixture__break'") == 1


def test_transient_failure_is_tried_four_times(fixture_team: Team):
    def count_retries() -> float:
        page = HTTP.get(f"{fixture_team.server.url}/metrics", headers=fixture_team.headers("operator")).text
        found = re.search(r'^shopfloor_retries_total\{tool="mcp__fixture__hiccup"\} (\S+)$', page, re.MULTILINE)
        return float(found[1]) if found else 0

    before = count_retries()
    assert fixture_team.execute("supervisor", "mcp__fixture__hiccup").headers["retry-after"] == "1"
    assert count_retries() == before + 3


@pytest.mark.parametrize("spelling", ["header", "body"])
def test_idempotency_key_replays_the_first_response(either_team: Team, spelling: str):
    key = uuid.uuid4().hex
    how: dict[str, Any] = {"key": key} if spelling == "header" else {"idempotencyKey": key}
    first, again = (either_team.execute("worker_a", LOG_DECISION, DECISION, **how) for _ in range(2))
    assert first.json()["data"] == again.json()["data"]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    either = either_team.execute("worker_a", LOG_DECISION, DECISION, key=key, idempotencyKey=key)
    assert either.headers["idempotency-replayed"] == "true"


def test_idempotency_key_is_scoped_to_caller_and_tool(either_team: Team):
    key = uuid.uuid4().hex
    own = either_team.execute("worker_a", LOG_DECISION, DECISION, key=key)
    other = either_team.execute("worker_b", LOG_DECISION, DECISION, key=key)
    assert other.status_code == 200
    assert other.json()["data"]["logId"] != own.json()["data"]["logId"]
    as_theirs = either_team.execute("operator", LOG_DECISION, DECISION, key=key, agentId="worker_b")
    assert as_theirs.json()["data"] == other.json()["data"]


def test_rejected_call_does_not_use_up_its_idempotency_key(either_team: Team):
    key = uuid.uuid4().hex
    rejected_response = either_team.execute("worker_a", LOG_DECISION, {"title": "t"}, key=key)
    accepted_response = either_team.execute("worker_a", LOG_DECISION, DECISION, key=key)
    assert (rejected_response.status_code, accepted_response.status_code) == (422, 200)
    assert "idempotency-replayed" not in accepted_response.headers


def test_concurrent_calls_with_one_idempotency_key_run_once(either_team: Team):
    key = uuid.uuid4().hex
    start = threading.Barrier(8)

    def send() -> httpx2.Response:
        start.wait()
        return either_team.execute("worker_a", LOG_DECISION, DECISION, key=key)

    with ThreadPoolExecutor(8) as executor:
        responses = [future.result() for future in [executor.submit(send) for _ in range(8)]]
    assert {reply.status_code for reply in responses} == {200}
    assert len({reply.json()["data"]["logId"] for reply in responses}) == 1
    assert sum("idempotency-replayed" in reply.headers for reply in responses) == 7


@pytest.mark.parametrize("transport", ["execute", *ERAS])
def test_call_over_the_concurrency_limit_gets_retry_after(fixture_team: Team, tmp_path: Path, transport: str):
    server, gate = fixture_team.server, tmp_path / "gate"

    def count_running() -> int:
        return server.count("decision", "process IS NOT NULL AND tool = 'mcp__fixture__hold'")

    held_calls: list[Future[httpx2.Response]] = []
    with ThreadPoolExecutor(4) as executor:
        try:
            for number in range(4):
                held_calls.append(
                    executor.submit(fixture_team.execute, "supervisor", "mcp__fixture__hold", {"gate": str(gate)})
                )
                wait_until(lambda number=number: count_running() > number)  # type: ignore[misc]
            reply = fixture_team.ask(transport, "supervisor", STATUS)
        finally:
            gate.touch()
    assert (reply.status, reply.code) == (503 if transport == "execute" else 200, "TRANSIENT_ERROR")
    assert reply.response.headers["retry-after"] == "1"
    assert [hold.result().json()["data"] for hold in held_calls] == [{"gate": str(gate)}] * 4
    assert fixture_team.ask(transport, "supervisor", STATUS).code is None


def test_waiting_calls_do_not_count_towards_the_concurrency_limit(fixture_team: Team):
    def count_waiting() -> int:
        return fixture_team.server.count("decision", "process IS NOT NULL AND tool = 'mcp__fixture__wait'")

    input = {"topic": "log", "seconds": 600}
    with ThreadPoolExecutor(12) as executor:
        waits: list[Future[httpx2.Response]] = []
        for number in range(12):
            waits.append(executor.submit(fixture_team.execute, "supervisor", "mcp__fixture__wait", input))
            wait_until(lambda number=number: count_waiting() > number)  # type: ignore[misc]
        assert fixture_team.execute("supervisor", STATUS).status_code == 200
        assert fixture_team.execute("supervisor", LOG_DECISION, DECISION).status_code == 200
        answers = [wait.result().json() for wait in waits]
    assert [answer["data"] for answer in answers] == [{"notified": True}] * 12
    assert count_waiting() == 0


def test_server_reports_a_lost_database_and_recovers(tmp_path: Path):
    database = PostgresServer()
    try:
        with serving(tmp_path, database=database.create_database(), retries=1, retry_pause=0.01) as server:
            assert server.call(LOG_DECISION, DECISION).status_code == 200
            database.halt()
            reply = server.call(LOG_DECISION, DECISION)
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "TRANSIENT_ERROR")
            assert reply.headers["retry-after"] == "1"
            readiness = HTTP.get(f"{server.url}/readyz")
            assert (readiness.status_code, readiness.json()["status"]) == (503, "waiting")
            assert HTTP.get(f"{server.url}/healthz").status_code == 200
            database.start()
            wait_until(lambda: HTTP.get(f"{server.url}/readyz").status_code == 200)
            wait_until(lambda: server.call(LOG_DECISION, DECISION).status_code == 200)
    finally:
        database.stop()


def test_metrics_page_has_call_and_store_metrics(fixture_team: Team):
    page = HTTP.get(f"{fixture_team.server.url}/metrics", headers=fixture_team.headers("worker_a"))
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in (
        "calls_total",
        "call_seconds_bucket",
        "commit_batch_size_bucket",
        "store_wal_bytes",
        "store_queue_depth",
    ):
        assert f"\nshopfloor_{name}" in page.text


def test_each_call_logs_its_start_and_its_end(fixture_team: Team):
    reply = fixture_team.execute(
        "worker_a", LOG_DECISION, {"title": "t", "body": "password: sk-aaaaaaaaaaaaaaaaaaaaaaaa"}
    )
    number = reply.json()["data"]["logId"].removeprefix("log-")
    [(reference,)] = fixture_team.server.rows(f"SELECT reference FROM decision WHERE id = {number}")

    def read_lines() -> list[dict[str, Any]]:
        records = [json.loads(line) for line in fixture_team.server.log.read_text().splitlines()]
        return [line for line in records if int(str(line.get("reference", "ref-0"))[4:], 36) == reference]

    started, ended = wait_until(lambda: found if len(found := read_lines()) == 2 else None) or []
    assert (started["message"], started["tool"], started["transport"]) == ("call started", LOG_DECISION, "execute")
    assert "sk-aaaa" not in started["parameters"]
    assert (ended["message"], ended["caller"], ended["success"]) == ("call ended", "agent:worker_a", True)
    assert ended["ms"] > 0
    assert ended["size"] > 0
