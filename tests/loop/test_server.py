"""The server of a run: listening before anybody is told, open to its run alone, every tool over HTTP."""

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

from shopfloor.domain.actors import Kind, Principal
from shopfloor.domain.loops import Run, RunState
from shopfloor.repositories.work import Work
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import loops

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def begun(root: Path, *names: str, profile: tuple[str, ...] = ("loop",)) -> tuple[Shopfloor, dict[str, str]]:
    """The floor of the first run, and a token for each."""
    shopfloor = Shopfloor(
        Settings(project=root, profile=profile, port=0), kind="run", only=Principal(Kind.RUN, names[0])
    )
    tokens = {}
    for name in names:
        shopfloor.floor.administer(partial(_create, name))
        tokens[name] = shopfloor.floor.administer(partial(_drive, name))[1]
    return shopfloor, tokens


@asynccontextmanager
async def connected(url: str, token: str) -> AsyncIterator[ClientSession]:
    """The official client at the endpoint of a run."""
    client = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
    async with (
        client,
        streamable_http_client(f"{url}/mcp", http_client=client) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        yield session


def _create(name: str, work: Work) -> Run:
    return loops.create(work, name, spec="", project="", options="{}")


def _drive(name: str, work: Work) -> tuple[Run, str]:
    return loops.drive(work, name, "{}")


async def test_every_tool_works_over_http_with_the_official_client(tmp_path: Path):
    shopfloor, tokens = await asyncio.to_thread(begun, tmp_path, "r")
    async with shopfloor.serving() as url, connected(url, tokens["r"]) as session:
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


async def test_by_setting_the_run_has_context_and_mail_too(tmp_path: Path):
    (tmp_path / "notes.md").write_text("The kettle is blue.\n")
    profile = ("loop", "context", "factory")
    shopfloor, tokens = await asyncio.to_thread(begun, tmp_path, "r", profile=profile)
    await asyncio.to_thread(shopfloor.hire, "wim", "WORKER", with_token=False)
    letter = {"toAgentId": "r", "subject": "s", "body": "hello"}
    async with shopfloor.serving() as url, connected(url, tokens["r"]) as session:
        instructions = (await session.initialize()).instructions or ""
        assert "task-next" in instructions
        assert "mcp__agent__get_status" not in instructions
        names = {tool.name for tool in (await session.list_tools()).tools}
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


async def test_only_its_own_run_is_served(tmp_path: Path):
    shopfloor, tokens = await asyncio.to_thread(begun, tmp_path, "r", "other")
    async with shopfloor.serving() as url:
        assert await asyncio.to_thread(_status, f"{url}/mcp", tokens["r"]) == 200
        assert await asyncio.to_thread(_status, f"{url}/mcp", tokens["other"]) == 401
        assert await asyncio.to_thread(_status, f"{url}/mcp", None) == 401
        await asyncio.to_thread(
            shopfloor.floor.administer, lambda work: loops.finish(work, "r", RunState.STOPPED, "over")
        )
        assert await asyncio.to_thread(_status, f"{url}/mcp", tokens["r"]) == 401
    await asyncio.to_thread(shopfloor.close)


async def test_it_listens_before_it_says_so_and_takes_no_lock(tmp_path: Path):
    first, tokens = await asyncio.to_thread(begun, tmp_path, "a", "b")
    second = await asyncio.to_thread(
        lambda: Shopfloor(Settings(project=tmp_path, profile=("loop",)), kind="run", only=Principal(Kind.RUN, "b"))
    )
    for _ in range(5):
        async with first.serving(port=0) as url, second.serving(port=0) as other:
            assert await asyncio.to_thread(_status, f"{url}/mcp", tokens["a"]) == 200
            assert await asyncio.to_thread(_status, f"{other}/mcp", tokens["b"]) == 200
    await asyncio.to_thread(first.close)
    await asyncio.to_thread(second.close)


def _status(url: str, token: str | None) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=300) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
