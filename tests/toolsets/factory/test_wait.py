"""Waiting for mail from this process and from another."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time

import pytest

from tests.operator_access import read_agent
from tests.toolsets.factory.processes import start_child
from tests.toolsets.factory.team import Team

PROMPT = 2.0
"""Seconds that a busy test machine may take; on a quiet one it is a few milliseconds."""


@pytest.fixture
def running_team(tmp_path, database):
    with Team(tmp_path, running=True, database=database) as team:
        yield team


class Waiter:
    """An agent that waits for mail on its own thread."""

    def __init__(self, team, name="w1", seconds=55):
        self._thread = threading.Thread(target=self._wait, args=(team, name, seconds))
        self._thread.start()
        while read_agent(team.shop, name).waiting_until is None and self._thread.is_alive():
            time.sleep(0.002)

    def _wait(self, team, name, seconds):
        self.answer = team.call(name, "mcp__mail__wait", timeoutSeconds=seconds)
        self.woken = time.monotonic()

    def result(self):
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.answer


def test_mail_wakes_a_waiting_agent(running_team):
    delays = []
    for number in range(5):
        waiter = Waiter(running_team)
        running_team.call("sup", "mcp__mail__send", toAgentId="w1", subject=f"Number {number}", body="b")
        sent = time.monotonic()
        (mail,) = waiter.result()["mails"]
        delays.append(waiter.woken - sent)
        running_team.call("w1", "mcp__mail__read", mailId=mail["id"])
    assert statistics.median(delays) < PROMPT


def test_mail_from_another_process_wakes_a_waiting_agent(running_team, tmp_path, database):
    with start_child("tests.toolsets.factory.child", "send", str(tmp_path), database, "w2", "w1") as other:
        waiter = Waiter(running_team)
        other.start()
        sent = other.read_result()
        assert waiter.result()["mails"][0]["fromAgentId"] == "w2"
        assert waiter.woken - sent < PROMPT
        print(f"woken {1000 * (waiter.woken - sent):.0f} ms after the commit")


def test_wait_without_mail_returns_an_empty_list_at_its_timeout(running_team):
    began = time.monotonic()
    assert running_team.call("w1", "mcp__mail__wait", timeoutSeconds=1) == {"count": 0, "unreadCount": 0, "mails": []}
    assert time.monotonic() - began >= 1
    assert running_team.call("w1", "mcp__agent__get_status")["state"] == "IDLE"


def test_unread_mail_is_returned_immediately(running_team):
    running_team.call("sup", "mcp__mail__send", toAgentId="w1", subject="s", body="b")
    assert running_team.call("w1", "mcp__mail__wait")["count"] == 1


def test_waiting_agent_has_the_status_waiting(running_team):
    waiter = Waiter(running_team)
    listed = running_team.call("sup", "mcp__supervisor__list_agents")["agents"]
    assert next(agent["state"] for agent in listed if agent["id"] == "w1") == "WAITING"
    running_team.call("sup", "mcp__mail__send", toAgentId="w1", subject="s", body="b")
    waiter.result()
    assert running_team.call("w1", "mcp__agent__get_status")["state"] == "IDLE"


def test_mail_of_another_agent_wakes_no_waiter(running_team):
    waiter = Waiter(running_team, seconds=1)
    running_team.call("sup", "mcp__mail__send", toAgentId="w2", subject="s", body="b")
    assert waiter.result()["count"] == 0


def test_stopping_server_answers_waiting_agents(tmp_path):
    team = Team(tmp_path, running=True)
    with team:
        waiter = Waiter(team)
        team.engine.cancel_waits()
        assert waiter.result()["count"] == 0


def test_waiting_calls_hold_no_thread_each(tmp_path):
    with Team(tmp_path, running=True, calls=4) as team:
        names = [team.create_agent(f"agent-{number}") for number in range(50)]

        def start_call(name, tool, **input):
            return asyncio.create_task(team.shop.acall("factory", tool, input, name))

        async def wait_until(condition):
            for _ in range(60_000):
                if condition():
                    return
                await asyncio.sleep(0.001)
            raise AssertionError("the condition never became true")

        async def wait_with_all():
            waiting = []
            for number, name in enumerate(names):
                waiting.append(start_call(name, "mcp__mail__wait", timeoutSeconds=55))
                await wait_until(lambda: team.engine._admission.waiting > number)  # noqa: B023 - used at once
            assert (await start_call("sup", "mcp__mail__send", to=names[:1], subject="s", body="b"))["success"] is True
            first = await asyncio.wait_for(waiting[0], 60)
            team.engine.cancel_waits()
            await asyncio.wait_for(asyncio.gather(*waiting[1:]), 60)
            return first

        assert asyncio.run(wait_with_all())["data"]["count"] == 1


@pytest.mark.parametrize("seconds", [-1, 56, 1.5, True])
def test_a_wait_is_at_most_55_seconds(team, seconds):
    assert team.expect_error("w1", "mcp__mail__wait", timeoutSeconds=seconds)[0] == "INVALID_INPUT"
