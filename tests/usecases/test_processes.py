"""Which processes live, and what the dead ones left behind."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from shopfloor.domain.times import SECOND
from shopfloor.usecases import decisions, processes
from tests.child import started
from tests.workbench import PATIENCE

UNKNOWN = '{"message":"Outcome unknown: the process that served this call ended before it answered"}'


@pytest.fixture
def children():
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.kill()
        process.communicate(timeout=PATIENCE)


@pytest.fixture
def still(opened):
    """A floor that keeps no house by itself."""
    return opened(started=False)


def known(floor):
    return [(process.kind, process.pid) for process in floor.floor.look(lambda work: work.processes.all())]


def keep_house(floor):
    buried = floor.floor.administer(processes.bury)
    return [process.pid for process in buried], floor.floor.administer(decisions.close_left_open)


def test_a_process_that_works_here_is_known(floor):
    assert known(floor) == [("test", os.getpid())]


def test_a_process_that_ends_well_is_forgotten(floor, opened, settings):
    opened(kind="guest").close()
    assert known(floor) == [("test", os.getpid())]


def test_a_killed_process_leaves_calls_that_are_closed_as_unknown(still, settings, children):
    children.append(started(settings, "note:before", "fetch:hold"))
    assert [entry.kind for entry in still.log() if entry.tool == "fetch"] == ["invocation"]
    children[0].kill()
    children[0].wait(PATIENCE)
    assert keep_house(still) == ([children[0].pid], 1)
    invocation, error = (entry for entry in still.log() if entry.tool == "fetch")
    assert (error.kind, error.decision, error.reasoning, error.context, error.code) == (
        "error",
        "Tool error: fetch",
        "Automatic tool error log",
        UNKNOWN,
        "INTERNAL_ERROR",
    )
    assert (error.reference, error.subject, error.actor) == (invocation.reference, invocation.subject, invocation.actor)
    assert keep_house(still) == ([], 0)


def test_calls_of_the_living_are_left_alone(still, settings, children):
    children += [started(settings, "fetch:hold"), started(settings, "fetch:hold")]
    children[0].kill()
    children[0].wait(PATIENCE)
    keep_house(still)  # unless the other child was quicker
    assert known(still) == [("child", children[1].pid)]
    assert still.rows("SELECT count(*) FROM decision WHERE process IS NOT NULL") == [(1,)]
    assert [entry.kind for entry in still.log()] == ["invocation", "invocation", "error"]


def test_on_another_machine_only_silence_tells(still):
    def register(work):
        return work.processes.add("serve", "elsewhere", 1, None, work.now)

    still.floor.administer(register)
    assert keep_house(still) == ([], 0)
    still.pass_time(31 * SECOND)
    assert keep_house(still) == ([1], 0)


def test_a_process_does_not_bury_itself_however_long_it_slept(floor):
    floor.pass_time(3600 * SECOND)
    assert keep_house(floor) == ([], 0)


def test_a_number_that_was_given_to_another_program_is_taken_for_alive_until_it_is_silent(still):
    def register(work):
        return work.processes.add("serve", socket.gethostname(), os.getppid(), None, work.now)

    still.floor.administer(register)
    assert keep_house(still) == ([], 0)
    still.pass_time(31 * SECOND)
    assert keep_house(still) == ([os.getppid()], 0)


def test_two_who_find_the_same_call_close_it_once(opened):
    first, second = opened(started=False), opened(started=False)
    first.execute(
        "INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
        " process, created_at) VALUES (:workspace, 1, 'invocation', 's', 'a', 'bench', 'fetch', 'd', 'r', '{}', 99, 1)",
        workspace=first.floor.works.workspace,
    )
    assert [keep_house(first)[1], keep_house(second)[1]] == [1, 0]
