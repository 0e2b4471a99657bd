"""The server of a run listens before it is announced, admits only its run, and serves every tool over HTTP."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.runs import Run, RunState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import runs
from tests.operator_access import write_as_operator

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def open_run_server(root: Path, *names: str, profile: tuple[str, ...] = ("loop",)) -> tuple[Shopfloor, dict[str, str]]:
    """Open the server of the first run, and return it with a token for each run."""
    shopfloor = Shopfloor(
        Settings(project=root, profile=profile, port=0), kind="run", only=Principal(Kind.RUN, names[0])
    )
    tokens = {}
    for name in names:
        write_as_operator(shopfloor, partial(_create_run, name))
        tokens[name] = write_as_operator(shopfloor, partial(_drive_run, name))[1]
    return shopfloor, tokens


@asynccontextmanager
async def connect_client(url: str, token: str) -> AsyncIterator[ClientSession]:
    """Connect the official client to the server of a run."""
    client = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
    async with (
        client,
        streamable_http_client(f"{url}/mcp", http_client=client) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        yield session


def _create_run(name: str, uow: UnitOfWork) -> Run:
    return runs.create_run(uow, name, spec="", project="", options="{}")


def _drive_run(name: str, uow: UnitOfWork) -> tuple[Run, str]:
    return runs.drive_run(uow, name, "{}")


async def test_every_tool_works_over_http_with_the_official_client(tmp_path: Path):
    shopfloor, tokens = await asyncio.to_thread(open_run_server, tmp_path, "r")
    async with shopfloor.serving() as url, connect_client(url, tokens["r"]) as session:
        await session.initialize()
        assert {tool.name for tool in (await session.list_tools()).tools} == {
            "task-add", "task-update", "task-list", "task-next", "note-add", "note-list",
            "iteration-summary", "session-complete",
        }  # fmt: skip

        async def call(name: str, **arguments: Any) -> tuple[bool, str]:
            result = await session.call_tool(name, arguments)
            return bool(result.is_error), result.content[0].text  # type: ignore[union-attr]

        added = await call("task-add", tasks=[{"content": "a"}])
        assert added == (False, "Added TAS-1 [remaining, priority 2] a")
        assert await call("task-next") == (False, "TAS-1 [remaining, priority 2]\na")
        assert (await call("session-complete"))[0] is True
        assert (await call("task-update", id="TAS-1", status="completed"))[0] is False
        assert (await call("task-list"))[1].startswith("completed (1):")
        assert (await call("note-add", notes=[{"content": "n", "type": "tip"}]))[1].startswith("Added NOT-1")
        assert (await call("note-list"))[1].startswith("NOT-1")
        assert (await call("iteration-summary", summary="s"))[0] is False
        error, text = await call("iteration-summary", summary="s")
        assert (error, text.startswith("error: ")) == (True, True)
        assert (await call("session-complete"))[0] is False
    await asyncio.to_thread(shopfloor.close)


async def test_runs_have_search_and_mail_by_default_in_a_short_tool_list(tmp_path: Path):
    (tmp_path / "notes.md").write_text("The kettle is blue.\n")
    profile = Settings.model_fields["run_toolsets"].default
    shopfloor, tokens = await asyncio.to_thread(open_run_server, tmp_path, "r", profile=profile)
    await asyncio.to_thread(shopfloor.create_agent, "wim", "WORKER", issue_token=False)
    letter = {"toAgentId": "r", "subject": "s", "body": "hello"}
    async with shopfloor.serving() as url, connect_client(url, tokens["r"]) as session:
        instructions = (await session.initialize()).instructions or ""
        assert "task-next" in instructions
        assert "mcp__agent__get_status" not in instructions
        tools = (await session.list_tools()).tools
        listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        # Four characters count as a token, as for workers.
        assert len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False)) / 4 <= 2_800
        names = {tool.name for tool in tools}
        assert {"task-add", "context_search", "grep_codebase", "read_file", "mcp__mail__send"} <= names
        assert [name for name in names if name.startswith("mcp__") and not name.startswith("mcp__mail__")] == []

        async def call(name: str, **arguments: Any) -> Any:
            result = await session.call_tool(name, arguments)
            assert not result.is_error, result
            return json.loads(result.content[0].text)  # type: ignore[union-attr]

        assert "The kettle is blue." in str(await call("read_file", path="notes.md"))
        assert "notes.md" in str(await call("grep_codebase", pattern="kettle"))
        await shopfloor.acall("factory", "mcp__mail__send", letter, "wim")
        [mail] = (await call("mcp__mail__list_inbox"))["data"]["mails"]
        assert (mail["fromAgentId"], mail["body"]) == ("wim", "hello")
        assert (await call("mcp__mail__wait", timeoutSeconds=0))["data"]["count"] == 1
        await call("mcp__mail__reply", originalMailId=mail["id"], body="hello yourself")
        [answer] = (await shopfloor.acall("factory", "mcp__mail__list_inbox", {}, "wim"))["data"]["mails"]
        assert (answer["fromAgentId"], answer["fromAgentType"], answer["bodyIsUntrusted"]) == ("run:r", "RUN", True)
        asked = (await call("mcp__mail__ask", subject="Colour?", body="Which?", timeoutSeconds=0))["data"]
        await shopfloor.acall("desk", "inbox_answer", {"mailId": asked["ticket"], "answer": "blue"})
        answered = (await call("mcp__mail__ask", ticket=asked["ticket"]))["data"]
        assert (asked["state"], answered["state"], answered["answer"]) == ("OPEN", "ANSWERED", "blue")
        denied = await session.call_tool("mcp__task__claim", {})
        assert denied.is_error
    await asyncio.to_thread(shopfloor.close)


async def test_token_of_a_run_gives_access_to_that_run_only(tmp_path: Path):
    shopfloor, tokens = await asyncio.to_thread(open_run_server, tmp_path, "r", "other")
    async with shopfloor.serving() as url:
        assert await asyncio.to_thread(_read_status, f"{url}/mcp", tokens["r"]) == 200
        assert await asyncio.to_thread(_read_status, f"{url}/mcp", tokens["other"]) == 401
        assert await asyncio.to_thread(_read_status, f"{url}/mcp", None) == 401
        await asyncio.to_thread(
            write_as_operator, shopfloor, lambda uow: runs.finish_run(uow, "r", RunState.STOPPED, "over")
        )
        assert await asyncio.to_thread(_read_status, f"{url}/mcp", tokens["r"]) == 401
    await asyncio.to_thread(shopfloor.close)


async def test_two_run_servers_listen_at_once_without_a_lock(tmp_path: Path):
    first, tokens = await asyncio.to_thread(open_run_server, tmp_path, "a", "b")
    second = await asyncio.to_thread(
        lambda: Shopfloor(Settings(project=tmp_path, profile=("loop",)), kind="run", only=Principal(Kind.RUN, "b"))
    )
    for _ in range(5):
        async with first.serving(port=0) as url, second.serving(port=0) as other:
            assert await asyncio.to_thread(_read_status, f"{url}/mcp", tokens["a"]) == 200
            assert await asyncio.to_thread(_read_status, f"{other}/mcp", tokens["b"]) == 200
    await asyncio.to_thread(first.close)
    await asyncio.to_thread(second.close)


async def test_the_token_of_a_run_is_rejected_by_the_main_server(tmp_path: Path):
    own, tokens = await asyncio.to_thread(open_run_server, tmp_path, "r")
    main = await asyncio.to_thread(lambda: Shopfloor(Settings(project=tmp_path, port=0)))
    async with own.serving(port=0) as url, main.serving(port=0) as main_url:
        assert await asyncio.to_thread(_read_status, f"{url}/mcp", tokens["r"]) == 200
        assert await asyncio.to_thread(_read_status, f"{main_url}/mcp", tokens["r"]) == 401
    await asyncio.to_thread(own.close)
    await asyncio.to_thread(main.close)


def _read_status(url: str, token: str | None) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=300) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
