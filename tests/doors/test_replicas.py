"""Two servers on one PostgreSQL database: one floor."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.doors.server import HTTP, WITH_FIXTURES, Server, bearer, serving, until
from tests.doors.team import LOG_DECISION, STATUS
from tests.postgres import PostgresServer

DECISION = {"title": "Chose a queue", "body": "Because of the load"}
ONE_SECOND = 1.0
BUSY = 5  # how much slower a busy machine may be


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
    """Of an agent that may do everything."""
    return replicas[0].agent("boss", "SUPERVISOR")


def test_what_one_closes_is_closed_for_the_other_within_a_second(replicas: tuple[Server, Server], token: str):
    first, second = replicas
    settings = Settings(project=first.folder, database=first.database)
    seconds = []
    floor = Shopfloor(settings, kind="cli")
    try:
        for number in range(5):
            issued, text = floor.issue_token(agent="boss")
            for replica in replicas:
                until(lambda replica=replica, text=text: replica.call(STATUS, token=text).status_code == 200)  # type: ignore[misc]
            floor.revoke_token(issued.id)
            revoked = time.monotonic()
            for replica in replicas[:: -1 if number % 2 else 1]:
                until(lambda replica=replica, text=text: replica.call(STATUS, token=text).status_code == 401)  # type: ignore[misc]
            seconds.append(time.monotonic() - revoked)
    finally:
        floor.close()
    print(f"revoked everywhere after at most {max(seconds):.3f} s")
    assert max(seconds) < ONE_SECOND * BUSY
    assert second.call(STATUS, token=token).status_code == 200


def test_a_retired_agent_is_out_everywhere(replicas: tuple[Server, Server], token: str):
    first, second = replicas
    leaving = first.agent("leaving")
    assert second.call(STATUS, token=leaving).status_code == 200
    second.cli("agent", "retire", "leaving")
    for replica in replicas:
        until(lambda replica=replica: replica.call(STATUS, token=leaving).status_code == 401)  # type: ignore[misc]


def test_a_key_used_at_one_is_known_to_the_other(replicas: tuple[Server, Server], token: str):
    first, second = replicas
    key = uuid.uuid4().hex
    made = first.call(LOG_DECISION, DECISION, token=token, key=key)
    again = second.call(LOG_DECISION, DECISION, token=token, key=key)
    other = second.call(LOG_DECISION, {**DECISION, "title": "Other"}, token=token, key=key)
    assert made.json()["data"] == again.json()["data"]
    assert again.headers["idempotency-replayed"] == "true"
    assert other.status_code == 409


def test_one_key_at_both_at_the_same_time_is_one_call(replicas: tuple[Server, Server], token: str):
    for _ in range(5):
        key, start = uuid.uuid4().hex, threading.Barrier(8)

        def send(number: int, key: str = key, start: threading.Barrier = start) -> str:
            start.wait()
            reply = replicas[number % 2].call(LOG_DECISION, {"title": key, "body": "b"}, token=token, key=key)
            return str(reply.json()["data"]["logId"])

        with ThreadPoolExecutor(8) as hands:
            assert len(set(hands.map(send, range(8)))) == 1
        assert replicas[0].count("decision", f"kind = 'manual' AND decision = '{key}'") == 1


def test_both_write_and_nothing_is_lost(replicas: tuple[Server, Server], token: str):
    titles = [uuid.uuid4().hex for _ in range(200)]

    def write(number: int) -> int:
        return replicas[number % 2].call(LOG_DECISION, {"title": titles[number], "body": "b"}, token=token).status_code

    with ThreadPoolExecutor(8) as hands:
        assert set(hands.map(write, range(200))) == {200}
    kept = [title for (title,) in replicas[1].rows("SELECT decision FROM decision WHERE kind = 'manual'")]
    assert sorted(set(titles) & set(kept)) == sorted(titles)
    assert len(kept) == len(set(kept) - {DECISION["title"]}) + kept.count(DECISION["title"])


def test_who_waits_at_one_hears_what_happens_at_the_other(replicas: tuple[Server, Server], token: str):
    first, second = replicas
    with ThreadPoolExecutor(1) as hands:
        asked = {"topic": "log", "seconds": 600}
        wait = hands.submit(first.call, "mcp__fixture__wait", asked, token=token)
        until(lambda: first.count("decision", "process IS NOT NULL") == 1)
        second.call(LOG_DECISION, DECISION, token=token)
        assert wait.result().json()["data"] == {"stirred": True}


def test_each_operator_has_a_token_that_counts_at_both(replicas: tuple[Server, Server], token: str):
    for owner in replicas:
        for replica in replicas:
            page = HTTP.get(f"{replica.url}/metrics", headers=bearer(owner.operator))
            assert page.status_code == 200
