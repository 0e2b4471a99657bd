"""Registered processes, and the calls that dead ones left open."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from shopfloor.domain.times import SECOND
from shopfloor.gateways import process_tree
from shopfloor.usecases import decisions, processes
from tests.child import start_child
from tests.operator_access import read_as_operator, write_as_operator
from tests.rows_read import count_rows_read
from tests.workbench import PATIENCE

NO_PID = 2**22 + 1
"""Above every pid that Linux gives."""
UNKNOWN = '{"message":"Outcome unknown: the process that served this call ended before it answered"}'


@pytest.fixture
def children():
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.kill()
        process.communicate(timeout=PATIENCE)


@pytest.fixture
def idle(open_workbench):
    """A workbench without housekeeping of its own."""
    return open_workbench(started=False)


def list_processes(shopfloor):
    return [
        (process.kind, process.pid) for process in read_as_operator(shopfloor, lambda uow: uow.processes.list_all())
    ]


def reap(shopfloor):
    reaped = write_as_operator(shopfloor, processes.reap_dead)
    return [process.pid for process in reaped], write_as_operator(shopfloor, decisions.close_left_open)


def test_running_process_is_registered(shopfloor):
    assert list_processes(shopfloor) == [("test", os.getpid())]


def test_process_that_closes_cleanly_is_removed(shopfloor, open_workbench, settings):
    open_workbench(kind="guest").close()
    assert list_processes(shopfloor) == [("test", os.getpid())]


def test_server_that_was_killed_is_neither_shown_nor_linked_to(idle):
    register(idle, NO_PID, url="http://127.0.0.1:1", namespace=process_tree.read_namespace())
    assert idle.call("desk", "floor_overview", {})["processes"] == []
    assert idle.call("desk", "link_create", {})["serverUrl"] is None


def test_calls_of_a_killed_process_are_closed_as_unknown(idle, settings, children):
    children.append(start_child(settings, "note:before", "fetch:hold"))
    assert [entry.kind for entry in idle.log() if entry.tool == "fetch"] == ["invocation"]
    children[0].kill()
    children[0].wait(PATIENCE)
    assert reap(idle) == ([children[0].pid], 1)
    invocation, error = (entry for entry in idle.log() if entry.tool == "fetch")
    assert (error.kind, error.decision, error.reasoning, error.context, error.code) == (
        "error",
        "Tool error: fetch",
        "Automatic tool error log",
        UNKNOWN,
        "INTERNAL_ERROR",
    )
    assert (error.reference, error.subject, error.actor) == (invocation.reference, invocation.subject, invocation.actor)
    assert reap(idle) == ([], 0)


def test_calls_of_running_processes_stay_open(idle, settings, children):
    children += [start_child(settings, "fetch:hold"), start_child(settings, "fetch:hold")]
    children[0].kill()
    children[0].wait(PATIENCE)
    reap(idle)  # unless the other child did it first
    assert list_processes(idle) == [("child", children[1].pid)]
    assert idle.rows("SELECT count(*) FROM decision WHERE process IS NOT NULL") == [(1,)]
    assert [entry.kind for entry in idle.log()] == ["invocation", "invocation", "error"]


def test_process_on_another_machine_is_reaped_when_its_heartbeat_stops(idle):
    def register(uow):
        return uow.processes.add("serve", "elsewhere", 1, None, uow.now)

    write_as_operator(idle, register)
    assert reap(idle) == ([], 0)
    idle.pass_time(31 * SECOND)
    assert reap(idle) == ([1], 0)


def test_process_does_not_reap_itself_after_a_long_sleep(shopfloor):
    shopfloor.pass_time(3600 * SECOND)
    assert reap(shopfloor) == ([], 0)


def register(shopfloor, pid, url=None, **identity):
    return write_as_operator(
        shopfloor, lambda uow: uow.processes.add("serve", socket.gethostname(), pid, url, uow.now, **identity)
    )


def test_process_in_another_pid_namespace_is_reaped_only_when_its_heartbeat_stops(idle):
    register(idle, NO_PID, namespace=f"{process_tree.read_namespace()}0")
    assert reap(idle) == ([], 0)
    idle.pass_time(31 * SECOND)
    assert reap(idle) == ([NO_PID], 0)


def test_gone_process_of_the_same_pid_namespace_is_reaped_at_once(idle):
    register(idle, NO_PID, namespace=process_tree.read_namespace())
    assert reap(idle) == ([NO_PID], 0)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="start times are read from /proc")
def test_process_whose_id_was_reused_is_reaped_at_once(idle):
    parent = os.getppid()
    ticks = process_tree.read_start_ticks(parent)
    assert ticks is not None
    register(idle, parent, namespace=process_tree.read_namespace(), start_ticks=ticks)
    assert reap(idle) == ([], 0)
    register(idle, parent, namespace=process_tree.read_namespace(), start_ticks=ticks - 1)
    assert reap(idle) == ([parent], 0)


def test_open_call_is_closed_once_by_concurrent_reapers(open_workbench):
    first, second = open_workbench(started=False), open_workbench(started=False)
    first.execute(
        "INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
        " process, created_at) VALUES (:workspace, 1, 'invocation', 's', 'a', 'bench', 'fetch', 'd', 'r', '{}', 99, 1)",
        workspace=first.engine.database.workspace,
    )
    assert [reap(first)[1], reap(second)[1]] == [1, 0]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_search_for_calls_of_dead_processes_does_not_read_those_of_living_ones(idle):
    # A server may have 10,000 waiting calls, and looks for dead ones at every heartbeat.
    idle.write(lambda uow: processes.register_process(uow, kind="test", url=None))
    [(living,)] = idle.rows("SELECT id FROM process")

    def open_calls(count):
        idle.execute(
            """
            INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning,
              context, process, created_at)
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
            SELECT workspace, i, 'invocation', 'agent:a', 'agent:a', 'bench', 'wait', '', '', '{}', process.id, 0
            FROM n, process
            """,
            count=count,
        )

    def count_rows():
        return count_rows_read(idle.engine.database, lambda: idle.write(decisions.close_left_open))

    open_calls(10)
    few = count_rows()
    open_calls(1000)
    assert count_rows() == few
    idle.execute("UPDATE decision SET process = :gone WHERE reference = 7", gone=living + 1)
    assert idle.write(decisions.close_left_open) == 2
