"""`shopfloor serve --workers N`: several processes share one port, and behave like one server."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.pgbouncer import PgBouncer
from tests.transports.server import Server, run, serving, wait_until
from tests.transports.team import LOG_DECISION, STATUS


@pytest.fixture
def database(postgres):
    return postgres.create_database()


def list_workers(server: Server) -> list[int]:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [int(pid) for pid in children]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_share_a_port_and_a_killed_one_is_replaced(tmp_path, database):
    with serving(tmp_path, "--workers", "2", database=database) as server:
        token = server.agent("boss", "SUPERVISOR")
        wait_until(lambda: server.count("process", "kind = 'serve'") == 2)
        with ThreadPoolExecutor(8) as executor:
            answers = executor.map(
                lambda n: server.call(LOG_DECISION, {"title": f"t{n}", "body": "b"}, token=token).status_code, range(40)
            )
            assert set(answers) == {200}
        first, second = list_workers(server)
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: len(list_workers(server)) == 2 and second not in list_workers(server))
        assert first in list_workers(server)
        assert server.call(STATUS, token=token).status_code == 200
        workers = list_workers(server)
        code, seconds = server.stop()
        assert code == 0
        assert seconds < 60
        assert not any(is_running(pid) for pid in workers)


def test_workers_end_when_their_watcher_is_killed(tmp_path, database):
    with serving(tmp_path, "--workers", "2", database=database) as server:
        wait_until(lambda: len(list_workers(server)) == 2)
        workers = list_workers(server)
        server.kill()
        wait_until(lambda: not any(is_running(pid) for pid in workers))


def test_workers_need_postgres(tmp_path):
    done: subprocess.CompletedProcess[str] = run("serve", "--workers", "2", "--port", "0", cwd=tmp_path)
    assert done.returncode != 0
    assert "PostgreSQL" in done.stderr
    assert "Traceback" not in done.stderr


def test_replicas_share_rate_limits(tmp_path, database):
    limits = {"rate_limits": f'{{"{STATUS}": 6}}', "database": database}
    with serving(tmp_path / "a", **limits) as first, serving(tmp_path / "b", **limits) as second:
        token = first.agent("boss", "SUPERVISOR")
        codes = [replica.call(STATUS, token=token).status_code for replica in (first, second) * 5]
    # Of ten calls in a minute, six are admitted, wherever they arrive.
    assert sorted(codes) == [200] * 6 + [429] * 4


def test_replicas_behind_a_pooler_wake_each_other(tmp_path, database):
    pooler = PgBouncer(database)
    behind = {"database": pooler.url, "database_direct": database}
    with serving(tmp_path / "a", **behind) as first, serving(tmp_path / "b", **behind) as second:
        supervisor, ann = first.agent("boss", "SUPERVISOR"), first.agent("ann", "ORCHESTRATOR")
        with ThreadPoolExecutor(1) as executor:
            waiting = executor.submit(second.call, "mcp__mail__wait", {"timeoutSeconds": 50}, token=ann)
            wait_until(lambda: second.count("decision", "process IS NOT NULL") == 1)
            sent = first.call("mcp__mail__send", {"toAgentId": "ann", "subject": "s", "body": "b"}, token=supervisor)
            assert sent.status_code == 200, sent.text
            answer = waiting.result()
        assert answer.status_code == 200, answer.text
        assert answer.json()["data"]["mails"]
    pooler.stop()
