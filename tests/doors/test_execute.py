"""POST /mcp/execute: the factory contract's envelope, and beside it the HTTP status that fits."""

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

from tests.doors.server import ERAS, HTTP, Server, bearer, serving, until
from tests.doors.team import LOG_DECISION, STATUS, Team
from tests.postgres import PostgresServer

DECISION = {"title": "Chose a queue", "body": "Because of the load"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_the_examples_of_the_contract_work_as_printed(open_floor: Server):
    decision = {
        "title": "Chose implementation approach",
        "body": "Decided to use Redis for caching instead of in-memory cache for better scalability",
    }
    body = {"agentId": "worker-123", "toolName": LOG_DECISION, "input": decision}
    reply = HTTP.post(f"{open_floor.url}/mcp/execute", json=body)
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
    kept = open_floor.rows(f"SELECT decision, reasoning, subject FROM decision WHERE id = {number}")
    assert kept == [(decision["title"], decision["body"], "agent:worker-123")]


def test_a_status_is_exactly_what_the_contract_shows(either_team: Team):
    answer = either_team.execute("worker_a", STATUS, agentId="worker_a").json()
    data = answer.pop("data")
    times = {data.pop(name) for name in ("lastActiveAt", "createdAt", "updatedAt")} | {answer.pop("timestamp")}
    assert answer == {"success": True}
    assert data == {
        "id": "worker_a",
        "type": "WORKER",
        "state": "IDLE",
        "currentEpicId": None,
        "currentTaskId": None,
        "tmuxSessionName": None,
    }
    assert all(TIME.fullmatch(time) for time in times)


def test_every_refusal_has_its_status_and_one_shape(workshop: Team, tmp_path: Path):
    key = uuid.uuid4().hex
    workshop.execute("supervisor", LOG_DECISION, DECISION, key=key)
    ask = workshop.execute
    refusals = {
        (400, "INVALID_INPUT"): _post(workshop, content=b"{"),
        (401, "PERMISSION_DENIED"): ask(None, STATUS),
        (403, "PERMISSION_DENIED"): ask("worker_a", "mcp__fixture__refuse"),
        (404, "TOOL_NOT_FOUND"): ask("worker_a", "mcp__nope__nope"),
        (404, "AGENT_NOT_FOUND"): ask("operator", STATUS, agentId="ghost"),
        (409, "INVALID_INPUT"): ask("supervisor", LOG_DECISION, {**DECISION, "title": "Other"}, key=key),
        (409, "INVALID_AGENT_STATE"): ask("supervisor", "mcp__fixture__refuse"),
        (413, "INVALID_INPUT"): _post(workshop, content=b" " * (2**20 + 1)),
        (415, "INVALID_INPUT"): _post(workshop, content=b"{}", headers={"Content-Type": "text/plain"}),
        (421, "PERMISSION_DENIED"): _post(workshop, content=b"{}", headers={"Host": "evil.example"}),
        (422, "INVALID_INPUT"): ask("worker_a", LOG_DECISION, {"title": ""}),
        (500, "INTERNAL_ERROR"): ask("supervisor", "mcp__fixture__break", {"text": "secret-detail"}),
        (503, "TRANSIENT_ERROR"): ask("supervisor", "mcp__fixture__hiccup"),
    }
    for (status, code), reply in refusals.items():
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


def test_an_unexpected_failure_leaves_a_reference_that_finds_its_cause(workshop: Team):
    reply = workshop.execute("supervisor", "mcp__fixture__break", {"text": "the-cause"})
    details = reply.json()["error"]["details"]
    number = int(details["reference"].removeprefix("ref-"), 36)
    assert details["reference"] in details["hint"]
    [(stack,)] = workshop.server.rows(f"SELECT stack FROM decision WHERE kind = 'error' AND reference = {number}")
    assert "RuntimeError: broken: the-cause" in stack
    assert workshop.server.count("escalation", "tool = 'mcp__fixture__break'") == 1


def test_a_passing_failure_is_tried_four_times(workshop: Team):
    def tried() -> float:
        page = HTTP.get(f"{workshop.server.url}/metrics", headers=workshop.headers("operator")).text
        found = re.search(r'^shopfloor_retries_total\{tool="mcp__fixture__hiccup"\} (\S+)$', page, re.MULTILINE)
        return float(found[1]) if found else 0

    before = tried()
    assert workshop.execute("supervisor", "mcp__fixture__hiccup").headers["retry-after"] == "1"
    assert tried() == before + 3


@pytest.mark.parametrize("spelling", ["header", "body"])
def test_a_key_gives_the_first_answer_again(either_team: Team, spelling: str):
    key = uuid.uuid4().hex
    how: dict[str, Any] = {"key": key} if spelling == "header" else {"idempotencyKey": key}
    first, again = (either_team.execute("worker_a", LOG_DECISION, DECISION, **how) for _ in range(2))
    assert first.json()["data"] == again.json()["data"]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    either = either_team.execute("worker_a", LOG_DECISION, DECISION, key=key, idempotencyKey=key)
    assert either.headers["idempotency-replayed"] == "true"


def test_a_key_belongs_to_its_caller_and_its_tool(either_team: Team):
    key = uuid.uuid4().hex
    mine = either_team.execute("worker_a", LOG_DECISION, DECISION, key=key)
    theirs = either_team.execute("worker_b", LOG_DECISION, DECISION, key=key)
    assert theirs.status_code == 200
    assert theirs.json()["data"]["logId"] != mine.json()["data"]["logId"]
    as_theirs = either_team.execute("operator", LOG_DECISION, DECISION, key=key, agentId="worker_b")
    assert as_theirs.json()["data"] == theirs.json()["data"]


def test_a_refused_call_does_not_use_its_key_up(either_team: Team):
    key = uuid.uuid4().hex
    refused = either_team.execute("worker_a", LOG_DECISION, {"title": "t"}, key=key)
    made = either_team.execute("worker_a", LOG_DECISION, DECISION, key=key)
    assert (refused.status_code, made.status_code) == (422, 200)
    assert "idempotency-replayed" not in made.headers


def test_calls_with_one_key_at_the_same_time_are_one_call(either_team: Team):
    key = uuid.uuid4().hex
    start = threading.Barrier(8)

    def send() -> httpx2.Response:
        start.wait()
        return either_team.execute("worker_a", LOG_DECISION, DECISION, key=key)

    with ThreadPoolExecutor(8) as hands:
        replies = [sent.result() for sent in [hands.submit(send) for _ in range(8)]]
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.json()["data"]["logId"] for reply in replies}) == 1
    assert sum("idempotency-replayed" in reply.headers for reply in replies) == 7


@pytest.mark.parametrize("door", ["execute", *ERAS])
def test_one_call_too_many_is_told_to_come_back(workshop: Team, tmp_path: Path, door: str):
    server, gate = workshop.server, tmp_path / "gate"

    def under_way() -> int:
        return server.count("decision", "process IS NOT NULL AND tool = 'mcp__fixture__hold'")

    held: list[Future[httpx2.Response]] = []
    with ThreadPoolExecutor(4) as hands:
        try:
            for number in range(4):
                held.append(hands.submit(workshop.execute, "supervisor", "mcp__fixture__hold", {"gate": str(gate)}))
                until(lambda number=number: under_way() > number)  # type: ignore[misc]
            reply = workshop.ask(door, "supervisor", STATUS)
        finally:
            gate.touch()
    assert (reply.status, reply.code) == (503 if door == "execute" else 200, "TRANSIENT_ERROR")
    assert reply.response.headers["retry-after"] == "1"
    assert [hold.result().json()["data"] for hold in held] == [{"gate": str(gate)}] * 4
    assert workshop.ask(door, "supervisor", STATUS).code is None


def test_calls_that_wait_take_no_place_and_are_let_in_when_it_is_over(workshop: Team):
    def waiting() -> int:
        return workshop.server.count("decision", "process IS NOT NULL AND tool = 'mcp__fixture__wait'")

    asked = {"topic": "log", "seconds": 600}
    with ThreadPoolExecutor(12) as hands:
        waits: list[Future[httpx2.Response]] = []
        for number in range(12):
            waits.append(hands.submit(workshop.execute, "supervisor", "mcp__fixture__wait", asked))
            until(lambda number=number: waiting() > number)  # type: ignore[misc]
        assert workshop.execute("supervisor", STATUS).status_code == 200
        assert workshop.execute("supervisor", LOG_DECISION, DECISION).status_code == 200
        answers = [wait.result().json() for wait in waits]
    assert [answer["data"] for answer in answers] == [{"stirred": True}] * 12
    assert waiting() == 0


def test_a_store_that_is_gone_is_said_and_comes_back(tmp_path: Path):
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
            until(lambda: HTTP.get(f"{server.url}/readyz").status_code == 200)
            until(lambda: server.call(LOG_DECISION, DECISION).status_code == 200)
    finally:
        database.stop()


def test_the_metrics_count_every_call(workshop: Team):
    page = HTTP.get(f"{workshop.server.url}/metrics", headers=workshop.headers("worker_a"))
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in (
        "calls_total",
        "call_seconds_bucket",
        "commit_batch_size_bucket",
        "store_wal_bytes",
        "store_queue_depth",
    ):
        assert f"\nshopfloor_{name}" in page.text


def test_every_call_has_a_line_when_it_starts_and_one_when_it_ends(workshop: Team):
    reply = workshop.execute("worker_a", LOG_DECISION, {"title": "t", "body": "password: sk-aaaaaaaaaaaaaaaaaaaaaaaa"})
    number = reply.json()["data"]["logId"].removeprefix("log-")
    [(reference,)] = workshop.server.rows(f"SELECT reference FROM decision WHERE id = {number}")

    def lines() -> list[dict[str, Any]]:
        written = [json.loads(line) for line in workshop.server.log.read_text().splitlines()]
        return [line for line in written if int(str(line.get("reference", "ref-0"))[4:], 36) == reference]

    started, ended = until(lambda: found if len(found := lines()) == 2 else None) or []
    assert (started["message"], started["tool"], started["door"]) == ("call started", LOG_DECISION, "execute")
    assert "sk-aaaa" not in started["parameters"]
    assert (ended["message"], ended["caller"], ended["success"]) == ("call ended", "agent:worker_a", True)
    assert ended["ms"] > 0
    assert ended["size"] > 0
