"""One driver per run: a driver that lost its run cannot write, and every write of a driver is logged."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shopfloor.app import TOOLSETS
from shopfloor.domain.principals import OPERATOR, Kind, Principal
from shopfloor.domain.runs import Run, RunState, Wanted
from shopfloor.domain.times import SECOND
from shopfloor.errors import CommitOutcomeUnknown, InvalidState, PermissionDenied
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.runner import main
from shopfloor.runner.acp import McpServerRef
from shopfloor.runner.context import RunContext
from shopfloor.runner.options import RunOptions
from shopfloor.runner.run_store import RunStore
from shopfloor.runner.specification_work import SpecificationWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Credential, Request
from shopfloor.usecases import processes, runs
from tests.operator_access import read_as_operator, write_as_operator
from tests.runner.support import AGENT, PATIENCE, RecordingView, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def servers(tmp_path: Path, database: str) -> Iterator[list[Shopfloor]]:
    """Two processes' worth of servers on one store, with the runs r and other."""
    with ExitStack() as stack:
        settings = Settings(project=tmp_path, database=database)
        servers = [stack.enter_context(Shopfloor(settings)) for _ in range(2)]
        for name in ("r", "other"):
            write_as_operator(servers[0], partial(_create_run, name))
        yield servers


def _create_run(name: str, uow: UnitOfWork) -> Run:
    return runs.create_run(uow, name, spec="", project="", options="{}")


async def suspend(shopfloor: Shopfloor) -> None:
    """Make this server's process look like one that has not run for a while."""

    def forget_heartbeat(uow: UnitOfWork) -> None:
        assert uow.process is not None
        uow.processes.record_heartbeat(uow.process, uow.now - processes.MAX_SILENCE - SECOND)

    await asyncio.to_thread(write_as_operator, shopfloor, forget_heartbeat)


async def read_run(shopfloor: Shopfloor) -> Run:
    return await asyncio.to_thread(lambda: read_as_operator(shopfloor, lambda uow: uow.runs.get("r")))


async def test_a_second_driver_is_rejected_while_the_first_lives(servers: list[Shopfloor]):
    await RunStore(servers[0], "r").drive("{}", None)
    with pytest.raises(InvalidState, match="driven by another process"):
        await RunStore(servers[1], "r").drive("{}", None)


async def test_a_driver_that_lost_its_run_writes_nothing(servers: list[Shopfloor], tmp_path: Path):
    first, second = RunStore(servers[0], "r"), RunStore(servers[1], "r")
    await first.drive("{}", None)
    await suspend(servers[0])
    await second.drive("{}", None)
    await second.begin_iteration(prompt_changed=False)
    before = await read_run(servers[1])
    assert (first.fence, second.fence, before.fence) == (1, 2, 2)
    for write in (
        first.begin_iteration(prompt_changed=False),
        first.set_session("s"),
        first.set_failure(0, "f"),
        first.record_verdict(1, None),
        first.end_iteration(outcome="ended", failure=None, tokens=1, cost=1, spent=1),
        first.ask_permission("May I?", ("allow", "deny"), "subject"),
        first.write_file("stale.txt", "x", permitted=True),
        first.finish(RunState.STOPPED, "over"),
        first.wait_for_change(),
    ):
        with pytest.raises(InvalidState, match=r"another process drives the run 'r' now \(this driver's fence is 1"):
            await write
    assert await read_run(servers[1]) == before
    assert not (tmp_path / "stale.txt").exists()
    await second.finish(RunState.STOPPED, "over")


async def test_driver_that_lost_its_run_ends_its_agent_and_reports_why(servers: list[Shopfloor]):
    first = RunStore(servers[0], "r")
    run, token = await first.drive("{}", None)
    view = RecordingView()
    context = RunContext(
        store=first,
        run=run,
        options=RunOptions(agent=(sys.executable, str(AGENT), "hangs"), grace=1, handshake=PATIENCE),
        settings=servers[0].settings,
        work=SpecificationWork("{{spec}}"),
        mcp_server=McpServerRef("http://127.0.0.1:1/mcp", token),
        view=view,
    )
    driving = asyncio.create_task(main.drive_run(context))
    await asyncio.to_thread(wait_until, lambda: "iteration_started" in view.list_names())
    await suspend(servers[0])
    await RunStore(servers[1], "r").drive("{}", None)
    with pytest.raises(InvalidState, match="another process drives the run 'r' now"):
        await driving
    assert context.agent is None
    assert (await read_run(servers[1])).state is RunState.ACTIVE


async def test_every_write_of_a_driver_is_logged_as_the_runner(servers: list[Shopfloor]):
    store = RunStore(servers[0], "r")
    _, token = await store.drive("{}", None)
    await store.begin_iteration(prompt_changed=False)
    await store.set_session("s")
    await store.end_iteration(outcome="ended", failure=None, tokens=0, cost=0, spent=0)
    await store.finish(RunState.STOPPED, "over")
    entries = await asyncio.to_thread(
        read_as_operator, servers[0], lambda uow: uow.decisions.list_page(limit=100, subject="runner:r")[::-1]
    )
    assert [(entry.tool, entry.kind) for entry in entries] == [
        (tool, kind)
        for tool in ("run_drive", "iteration_begin", "iteration_session", "iteration_end", "run_finish")
        for kind in ("invocation", "result")
    ]
    assert token not in str(entries)


async def test_a_write_with_an_unknown_outcome_is_repeated_with_the_same_key(
    servers: list[Shopfloor], monkeypatch: pytest.MonkeyPatch
):
    store = RunStore(servers[0], "r")
    await store.drive("{}", None)
    acall, keys = servers[0].engine.acall, []

    async def lose_first_result(request: Request) -> Any:
        result = await acall(request)
        keys.append(request.idempotency_key)
        if len(keys) == 1:
            return type(result)(result.body, request, result.record, CommitOutcomeUnknown())
        return result

    monkeypatch.setattr(servers[0].engine, "acall", lose_first_result)
    begun = await store.begin_iteration(prompt_changed=False)
    assert len(keys) == 2
    assert keys[0] is not None
    assert keys[0] == keys[1]
    assert begun.iteration.attempts == 1


async def test_a_wait_returns_when_the_status_changes(servers: list[Shopfloor]):
    store = RunStore(servers[0], "r")
    await store.drive("{}", None)
    status = await store.wait_for_change()
    waiting = asyncio.create_task(store.wait_for_change(status.version))
    await asyncio.to_thread(write_as_operator, servers[1], lambda uow: runs.steer_run(uow, "r", Wanted.GO))
    assert not waiting.done()
    number, _ = await store.ask_permission("May I?", ("allow", "deny"), "subject")
    assert [request.number for request in (await waiting).requests] == [number]


async def test_a_driver_may_call_nothing_but_the_tools_of_its_run(servers: list[Shopfloor]):
    engine = servers[0].engine
    runner = Credential(trusted=Principal(Kind.RUNNER, "r"))
    others = [
        (toolset, tool.name)
        for name, toolset in engine.toolsets.items()
        for tool in toolset.tools.values()
        if name != "run" or tool.admin
    ]
    assert others
    for toolset, tool in others:
        result = await engine.acall(Request(toolset, tool, {}, runner, "test"))
        assert isinstance(result.error, PermissionDenied), tool
    operator = await engine.acall(engine.new_request("run", "run_get", {}, Credential(trusted=OPERATOR), "test"))
    assert isinstance(operator.error, PermissionDenied)


def test_the_toolset_is_not_served():
    assert not TOOLSETS["run"].served
