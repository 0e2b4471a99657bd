"""Two servers on one PostgreSQL database."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.postgres import PostgresServer
from tests.transports.server import HTTP, WITH_FIXTURES, Server, bearer, serving, wait_until
from tests.transports.team import LOG_DECISION, STATUS

DECISION = {"title": "Chose a queue", "body": "Because of the load"}
ONE_SECOND = 1.0
BUSY_FACTOR = 5  # factor for a busy machine


@pytest.fixture(scope="module")
def replicas(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two servers, each with a data folder of its own."""
    database = postgres.create_database()
    folders = [tmp_path_factory.mktemp("replica") for _ in range(2)]
    with (
        serving(folders[0], database=database, program=WITH_FIXTURES) as first,
        serving(folders[1], database=database, program=WITH_FIXTURES) as second,
    ):
        yield first, second


@pytest.fixture(scope="module")
def token(replicas: tuple[Server, Server]) -> str:
    """The token of a supervisor."""
    return replicas[0].agent("boss", "SUPERVISOR")


def test_revoked_token_is_rejected_by_all_replicas_within_a_second(replicas: tuple[Server, Server], token: str):
    first, second = replicas
    settings = Settings(project=first.folder, database=first.database)
    seconds = []
    shopfloor = Shopfloor(settings, kind="cli")
    try:
        for number in range(5):
            issued = shopfloor.issue_token(agent="boss")
            text = issued["token"]
            for replica in replicas:
                wait_until(lambda replica=replica, text=text: replica.call(STATUS, token=text).status_code == 200)  # type: ignore[misc]
            shopfloor.revoke_token(issued["issued"]["id"])
            revoked = time.monotonic()
            for replica in replicas[:: -1 if number % 2 else 1]:
                wait_until(lambda replica=replica, text=text: replica.call(STATUS, token=text).status_code == 401)  # type: ignore[misc]
            seconds.append(time.monotonic() - revoked)
    finally:
        shopfloor.close()
    print(f"revoked everywhere after at most {max(seconds):.3f} s")
    assert max(seconds) < ONE_SECOND * BUSY_FACTOR
    assert second.call(STATUS, token=token).status_code == 200


def test_retired_agent_is_rejected_by_all_replicas(replicas: tuple[Server, Server], token: str):
    first, second = replicas
    leaving = first.agent("leaving")
    assert second.call(STATUS, token=leaving).status_code == 200
    second.cli("agent", "retire", "leaving")
    for replica in replicas:
        wait_until(lambda replica=replica: replica.call(STATUS, token=leaving).status_code == 401)  # type: ignore[misc]


def test_replicas_share_idempotency_keys(replicas: tuple[Server, Server], token: str):
    first, second = replicas
    key = uuid.uuid4().hex
    first_response = first.call(LOG_DECISION, DECISION, token=token, key=key)
    again = second.call(LOG_DECISION, DECISION, token=token, key=key)
    other = second.call(LOG_DECISION, {**DECISION, "title": "Other"}, token=token, key=key)
    assert first_response.json()["data"] == again.json()["data"]
    assert again.headers["idempotency-replayed"] == "true"
    assert other.status_code == 409


def test_concurrent_calls_with_one_key_run_once_across_replicas(replicas: tuple[Server, Server], token: str):
    for _ in range(5):
        key, start = uuid.uuid4().hex, threading.Barrier(8)

        def send(number: int, key: str = key, start: threading.Barrier = start) -> str:
            start.wait()
            reply = replicas[number % 2].call(LOG_DECISION, {"title": key, "body": "b"}, token=token, key=key)
            return str(reply.json()["data"]["logId"])

        with ThreadPoolExecutor(8) as executor:
            assert len(set(executor.map(send, range(8)))) == 1
        assert replicas[0].count("decision", f"kind = 'manual' AND decision = '{key}'") == 1


def test_concurrent_writes_to_two_replicas_are_all_stored(replicas: tuple[Server, Server], token: str):
    titles = [uuid.uuid4().hex for _ in range(200)]

    def write(number: int) -> int:
        return replicas[number % 2].call(LOG_DECISION, {"title": titles[number], "body": "b"}, token=token).status_code

    with ThreadPoolExecutor(8) as executor:
        assert set(executor.map(write, range(200))) == {200}
    stored_titles = [title for (title,) in replicas[1].rows("SELECT decision FROM decision WHERE kind = 'manual'")]
    assert sorted(set(titles) & set(stored_titles)) == sorted(titles)
    assert len(stored_titles) == len(set(stored_titles) - {DECISION["title"]}) + stored_titles.count(DECISION["title"])


def test_waiting_call_is_woken_by_a_write_to_another_replica(replicas: tuple[Server, Server], token: str):
    first, second = replicas
    with ThreadPoolExecutor(1) as executor:
        input = {"topic": "log", "seconds": 600}
        wait = executor.submit(first.call, "mcp__fixture__wait", input, token=token)
        wait_until(lambda: first.count("decision", "process IS NOT NULL") == 1)
        second.call(LOG_DECISION, DECISION, token=token)
        assert wait.result().json()["data"] == {"notified": True}


def test_operator_token_of_each_replica_works_on_all(replicas: tuple[Server, Server], token: str):
    for owner in replicas:
        for replica in replicas:
            page = HTTP.get(f"{replica.url}/metrics", headers=bearer(owner.operator))
            assert page.status_code == 200
