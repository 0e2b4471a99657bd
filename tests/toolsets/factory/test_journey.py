"""A whole epic by six agents in six processes, two of which are killed."""

from __future__ import annotations

import json
import os
import queue
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.operator_access import read_as_operator
from tests.toolsets.factory.principals import PLANNER, TASKS, WORKERS
from tests.toolsets.factory.processes import CHECKOUT, PATIENCE
from tests.workbench import seed_agent

SILENCE = 10


class Actor:
    """A process and the lines that it prints."""

    def __init__(
        self,
        *arguments: str,
        environment: dict[str, str] | None = None,
        on_claim: Callable[[], None] = lambda: None,
    ) -> None:
        self.lines: queue.Queue[str] = queue.Queue()
        self._on_claim = on_claim
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
            self.lines.put(line)
            if '"claimed"' in line:
                self._on_claim()

    def read_line(self) -> str:
        return self.lines.get(timeout=PATIENCE)

    def wait_for(self, what: str) -> Any:
        """Wait for the next message of this kind and return its value."""
        while True:
            said = json.loads(self.read_line())
            if said["what"] == what:
                return said["value"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@pytest.fixture
def start_process():
    actors: list[Actor] = []

    def start(*arguments: str, **options: Any) -> Actor:
        actors.append(Actor(*arguments, **options))
        return actors[-1]

    yield start
    for actor in reversed(actors):
        actor.kill()


def test_epic_is_completed_although_two_workers_die(tmp_path, database, start_process):
    settings = Settings(project=tmp_path, database=database, agent_silence_seconds=SILENCE)
    shop = Shopfloor(settings)
    _, boss_token = seed_agent(shop, "boss", "SUPERVISOR", with_token=True)
    shop.close()
    environment = {
        "SHOPFLOOR_PROJECT": str(tmp_path),
        "SHOPFLOOR_DATABASE": database,
        "SHOPFLOOR_AGENT_SILENCE_SECONDS": str(SILENCE),
        "SHOPFLOOR_LOG_LEVEL": "warning",
    }
    server = start_process("shopfloor", "serve", "--port", "0", environment=environment)
    url = server.read_line().rpartition(" ")[2].strip()
    supervisor = start_process("tests.toolsets.factory.principals", "supervise", url, boss_token)
    tokens = dict(supervisor.wait_for("created") for _ in range(1 + len(WORKERS)))
    claims: queue.Queue[str] = queue.Queue()
    workers = {
        name: start_process(
            "tests.toolsets.factory.principals", "work", url, tokens[name], on_claim=partial(claims.put, name)
        )
        for name in WORKERS
    }
    start_process("tests.toolsets.factory.principals", "plan", url, tokens[PLANNER])

    # Workers that have claimed a task: one that is named before may get none, if the others are faster.
    victims: list[str] = []
    for _ in range(2):
        for _ in range(random.randint(1, 3)):
            while (name := claims.get(timeout=PATIENCE)) in victims:
                pass
        workers[name].kill()
        victims.append(name)

    epic = supervisor.wait_for("done")
    assert supervisor.process.wait(PATIENCE) == 0
    survivors = [workers[name] for name in WORKERS if name not in victims]
    assert [worker.process.wait(PATIENCE) for worker in survivors] == [0, 0]
    server.process.terminate()
    assert server.process.wait(PATIENCE) == 0
    shop = Shopfloor(settings)
    try:
        check_epic(shop, epic)
    finally:
        shop.close()


def check_epic(shop: Shopfloor, epic: str) -> None:
    def call(tool: str, **input: Any) -> Any:
        return shop.call("factory", tool, input, "boss")["data"]

    tasks = call("mcp__task__list", epicId=epic, limit=200)["tasks"]
    assert {task["state"] for task in tasks} == {"COMPLETED"}
    assert call("mcp__epic__get", epicId=epic)["state"] == "COMPLETED"
    check_each_task_was_completed_once(shop, [task["id"] for task in tasks])
    for task in tasks:
        check_log_of_task(call, task)
    check_every_mail_arrived_once(shop)


def check_each_task_was_completed_once(shop: Shopfloor, tasks: list[str]) -> None:
    read_mails = read_as_operator(
        shop,
        lambda uow: uow._connection.fetch_all(
            "SELECT data FROM event WHERE workspace = :workspace AND name = 'task.changed'", workspace=uow.workspace
        ),
    )
    changes = [json.loads(row[0]) for row in read_mails]
    completed = Counter(change["taskId"] for change in changes if change["state"] == "COMPLETED")
    assert completed == Counter(tasks)
    assert len(tasks) == TASKS


def check_log_of_task(call: Any, task: dict[str, Any]) -> None:
    """Check that the log has the creation, each claim and loss, and the approval of a task."""
    log = call("mcp__system__list_decisions", taskId=task["id"], limit=200)["decisions"]
    done = Counter(entry["decision"] for entry in log)
    assert done["Tool result: mcp__task__create"] == 1
    assert done["Tool result: mcp__task__claim"] == task["attempts"]
    returned = done[f"{task['id']} is PENDING again"]
    changes = 1 if int(task["id"].removeprefix("task-")) % 10 == 0 else 0
    assert task["attempts"] <= 1 + returned + changes
    approved = [entry["agentId"] for entry in log if entry["context"].get("state") == "COMPLETED"]
    assert set(approved) == {"boss"}


def check_every_mail_arrived_once(shop: Shopfloor) -> None:
    def read_mails(uow: Any) -> tuple[list[Any], list[Any]]:
        connection, workspace = uow._connection, uow.workspace
        sent = connection.fetch_all(
            "SELECT context FROM decision WHERE workspace = :workspace AND tool = 'mcp__mail__send'"
            " AND kind = 'result' AND subject LIKE 'agent:worker-%'",
            workspace=workspace,
        )
        got = connection.fetch_all(
            "SELECT mail.id FROM receipt JOIN mail ON mail.workspace = receipt.workspace AND mail.id = receipt.mail"
            " WHERE receipt.workspace = :workspace AND recipient = 'agent:boss' AND sender LIKE 'agent:worker-%'",
            workspace=workspace,
        )
        return sent, got

    sent, got = read_as_operator(shop, read_mails)
    assert Counter(json.loads(row[0])["mailId"] for row in sent) == Counter(f"mail-{row[0]}" for row in got)
    assert len(got) >= TASKS - 2
