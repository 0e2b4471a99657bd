"""Waiting for mail: woken when it comes, in this process and from another."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time

import pytest

from tests.factory.processes import child
from tests.factory.team import Team

PROMPT = 2.0
"""Seconds that a busy test machine may take; on a quiet one it is a few milliseconds."""


@pytest.fixture
def running(tmp_path, database):
    with Team(tmp_path, running=True, database=database) as team:
        yield team


class Waiter:
    """An agent that waits for mail on a thread of its own."""

    def __init__(self, team, name="w1", seconds=55):
        self._thread = threading.Thread(target=self._wait, args=(team, name, seconds))
        self._thread.start()
        while team.shop.agent(name).waiting_until is None and self._thread.is_alive():
            time.sleep(0.002)

    def _wait(self, team, name, seconds):
        self.answer = team.call(name, "mcp__mail__wait", timeoutSeconds=seconds)
        self.woken = time.monotonic()

    def result(self):
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.answer


def test_who_waits_is_woken_by_mail(running):
    delays = []
    for number in range(5):
        waiter = Waiter(running)
        running.call("sup", "mcp__mail__send", toAgentId="w1", subject=f"Number {number}", body="b")
        sent = time.monotonic()
        (mail,) = waiter.result()["mails"]
        delays.append(waiter.woken - sent)
        running.call("w1", "mcp__mail__read", mailId=mail["id"])
    assert statistics.median(delays) < PROMPT


def test_who_waits_is_woken_from_another_process(running, tmp_path, database):
    with child("tests.factory.child", "send", str(tmp_path), database, "w2", "w1") as other:
        waiter = Waiter(running)
        other.go()
        sent = other.said()
        assert waiter.result()["mails"][0]["fromAgentId"] == "w2"
        assert waiter.woken - sent < PROMPT
        print(f"woken {1000 * (waiter.woken - sent):.0f} ms after the commit")


def test_a_wait_without_mail_ends_in_time_and_empty(running):
    began = time.monotonic()
    assert running.call("w1", "mcp__mail__wait", timeoutSeconds=1) == {"count": 0, "unreadCount": 0, "mails": []}
    assert time.monotonic() - began >= 1
    assert running.call("w1", "mcp__agent__get_status")["state"] == "IDLE"


def test_unread_mail_is_answered_at_once(running):
    running.call("sup", "mcp__mail__send", toAgentId="w1", subject="s", body="b")
    assert running.call("w1", "mcp__mail__wait")["count"] == 1


def test_an_agent_that_waits_is_waiting(running):
    waiter = Waiter(running)
    listed = running.call("sup", "mcp__supervisor__list_agents")["agents"]
    assert next(agent["state"] for agent in listed if agent["id"] == "w1") == "WAITING"
    running.call("sup", "mcp__mail__send", toAgentId="w1", subject="s", body="b")
    waiter.result()
    assert running.call("w1", "mcp__agent__get_status")["state"] == "IDLE"


def test_somebody_elses_mail_wakes_nobody(running):
    waiter = Waiter(running, seconds=1)
    running.call("sup", "mcp__mail__send", toAgentId="w2", subject="s", body="b")
    assert waiter.result()["count"] == 0


def test_a_stopping_floor_answers_those_who_wait(tmp_path):
    team = Team(tmp_path, running=True)
    with team:
        waiter = Waiter(team)
        team.floor.interrupt()
        assert waiter.result()["count"] == 0


def test_many_wait_without_a_thread_each(tmp_path):
    with Team(tmp_path, running=True, calls=4) as team:
        names = [team.hire(f"agent-{number}") for number in range(50)]

        def ask(name, tool, **input):
            return asyncio.create_task(team.shop.acall("factory", tool, input, name))

        async def until(condition):
            for _ in range(60_000):
                if condition():
                    return
                await asyncio.sleep(0.001)
            raise AssertionError("this never became true")

        async def crowd():
            waiting = []
            for number, name in enumerate(names):
                waiting.append(ask(name, "mcp__mail__wait", timeoutSeconds=55))
                await until(lambda: team.floor._waiting > number)  # noqa: B023 - used at once
            assert (await ask("sup", "mcp__mail__send", to=names[:1], subject="s", body="b"))["success"] is True
            first = await asyncio.wait_for(waiting[0], 60)
            team.floor.interrupt()
            await asyncio.wait_for(asyncio.gather(*waiting[1:]), 60)
            return first

        assert asyncio.run(crowd())["data"]["count"] == 1


@pytest.mark.parametrize("seconds", [-1, 56, 1.5, True])
def test_a_wait_is_at_most_55_seconds(team, seconds):
    assert team.refused("w1", "mcp__mail__wait", timeoutSeconds=seconds)[0] == "INVALID_INPUT"
