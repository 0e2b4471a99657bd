"""A whole epic: six agents in six processes, two of them killed on the way."""

from __future__ import annotations

import json
import os
import queue
import random
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.factory.actors import PLANNER, TASKS, WORKERS
from tests.factory.processes import CHECKOUT, PATIENCE

SILENCE = 10


class Actor:
    """One process, and what it says."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.heard: queue.Queue[str] = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=CHECKOUT,
            env=os.environ | {"PYTHONPATH": str(CHECKOUT / "src")} | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard.put(line)

    def line(self) -> str:
        return self.heard.get(timeout=PATIENCE)

    def hear(self, what: str) -> Any:
        """The next thing of that kind that it says."""
        while True:
            said = json.loads(self.line())
            if said["what"] == what:
                return said["value"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@pytest.fixture
def processes():
    actors: list[Actor] = []

    def start(*arguments: str, **options: Any) -> Actor:
        actors.append(Actor(*arguments, **options))
        return actors[-1]

    yield start
    for actor in reversed(actors):
        actor.kill()


def test_an_epic_is_finished_although_two_workers_die(tmp_path, database, processes):
    settings = Settings(project=tmp_path, database=database, agent_silence_seconds=SILENCE)
    shop = Shopfloor(settings)
    _, boss_token = shop.hire("boss", "SUPERVISOR", with_token=True)
    shop.close()
    environment = {
        "SHOPFLOOR_PROJECT": str(tmp_path),
        "SHOPFLOOR_DATABASE": database,
        "SHOPFLOOR_AGENT_SILENCE_SECONDS": str(SILENCE),
        "SHOPFLOOR_LOG_LEVEL": "warning",
    }
    server = processes("shopfloor", "serve", "--port", "0", environment=environment)
    url = server.line().rpartition(" ")[2].strip()
    boss = processes("tests.factory.actors", "supervise", url, boss_token)
    tokens = dict(boss.hear("hired") for _ in range(1 + len(WORKERS)))
    workers = {name: processes("tests.factory.actors", "work", url, tokens[name]) for name in WORKERS}
    processes("tests.factory.actors", "plan", url, tokens[PLANNER])

    victims = random.sample(WORKERS, 2)
    for name in victims:
        for _ in range(random.randint(1, 3)):
            workers[name].hear("claimed")
        workers[name].kill()

    epic = boss.hear("done")
    assert boss.process.wait(PATIENCE) == 0
    survivors = [workers[name] for name in WORKERS if name not in victims]
    assert [worker.process.wait(PATIENCE) for worker in survivors] == [0, 0]
    server.process.terminate()
    assert server.process.wait(PATIENCE) == 0
    shop = Shopfloor(settings)
    try:
        check(shop, epic)
    finally:
        shop.close()


def check(shop: Shopfloor, epic: str) -> None:
    def call(tool: str, **input: Any) -> Any:
        return shop.call("factory", tool, input, "boss")["data"]

    tasks = call("mcp__task__list", epicId=epic, limit=200)["tasks"]
    assert {task["state"] for task in tasks} == {"COMPLETED"}
    assert call("mcp__epic__get", epicId=epic)["state"] == "COMPLETED"
    each_was_completed_once(shop, [task["id"] for task in tasks])
    for task in tasks:
        the_log_explains(call, task)
    every_mail_arrived_once(shop)


def each_was_completed_once(shop: Shopfloor, tasks: list[str]) -> None:
    rows = shop.floor.look(
        lambda work: work._connection.all(
            "SELECT data FROM event WHERE workspace = :workspace AND name = 'task.changed'", workspace=work.workspace
        )
    )
    changes = [json.loads(row[0]) for row in rows]
    completed = Counter(change["taskId"] for change in changes if change["state"] == "COMPLETED")
    assert completed == Counter(tasks)
    assert len(tasks) == TASKS


def the_log_explains(call: Any, task: dict[str, Any]) -> None:
    """Who made it, each time it was begun and lost, and who approved it."""
    log = call("mcp__system__list_decisions", taskId=task["id"], limit=200)["decisions"]
    done = Counter(entry["decision"] for entry in log)
    assert done["Tool result: mcp__task__create"] == 1
    assert done["Tool result: mcp__task__claim"] == task["attempts"]
    returned = done[f"{task['id']} is PENDING again"]
    changes = 1 if int(task["id"].removeprefix("task-")) % 10 == 0 else 0
    assert task["attempts"] <= 1 + returned + changes
    approved = [entry["agentId"] for entry in log if entry["context"].get("state") == "COMPLETED"]
    assert set(approved) == {"boss"}


def every_mail_arrived_once(shop: Shopfloor) -> None:
    def rows(work: Any) -> tuple[list[Any], list[Any]]:
        connection, workspace = work._connection, work.workspace
        sent = connection.all(
            "SELECT context FROM decision WHERE workspace = :workspace AND tool = 'mcp__mail__send'"
            " AND kind = 'result' AND subject LIKE 'agent:worker-%'",
            workspace=workspace,
        )
        got = connection.all(
            "SELECT mail.id FROM receipt JOIN mail ON mail.workspace = receipt.workspace AND mail.id = receipt.mail"
            " WHERE receipt.workspace = :workspace AND recipient = 'agent:boss' AND sender LIKE 'agent:worker-%'",
            workspace=workspace,
        )
        return sent, got

    sent, got = shop.floor.look(rows)
    assert Counter(json.loads(row[0])["mailId"] for row in sent) == Counter(f"mail-{row[0]}" for row in got)
    assert len(got) >= TASKS - 2
