"""Progress reports of indexing, as the official client gets them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from shopfloor.search import file_index
from shopfloor.search import index as search_index
from tests.toolsets.context.support import make_project, open_external, open_floor
from tests.transports.server import SHOPFLOOR, environment, serving

FILES = 600

Reports = list[tuple[float, float | None, str | None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def large_project(tmp_path: Path) -> Path:
    """A project that takes more than one batch to index."""
    return make_project(tmp_path / "p", {f"notes/{n}.txt": f"The {n}th note on pangolins\n" for n in range(FILES)})


async def search(client: Client) -> Reports:
    """Search and return the progress reports."""
    reports: Reports = []

    async def record(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    result = await client.call_tool("context_search", {"query": "pangolins"}, progress_callback=record)
    assert not result.is_error
    return reports


def is_growing(reports: Reports) -> bool:
    """Report whether there are reports, each larger than the last, with a total."""
    done = [each[0] for each in reports]
    complete = all(
        total is not None and total >= FILES and message == "Indexing files" for _, total, message in reports
    )
    return bool(reports) and done == sorted(set(done)) and complete


@pytest.mark.anyio
async def test_client_over_http_gets_indexing_progress(large_project: Path):
    with serving(large_project, embeddings="off") as server:
        async with server.client("2026-07-28") as client:
            assert is_growing(await search(client))


@pytest.mark.anyio
async def test_client_over_stdio_gets_indexing_progress(large_project: Path):
    env = environment(project=large_project, embeddings="off")
    command = StdioServerParameters(command=sys.executable, args=[*SHOPFLOOR, "stdio"], env=env, cwd=large_project)
    with (large_project / "stderr").open("w") as errors:
        async with Client(stdio_client(command, errors), mode="legacy") as client:
            assert is_growing(await search(client))


def test_progress_grows_with_each_batch(large_project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_index, "ROWS_PER_TRANSACTION", FILES // 6)
    reports: list[Any] = []
    with open_floor(large_project) as shopfloor:
        external = open_external(shopfloor, report=lambda *values: reports.append(values))
        while not shopfloor.engine.search.refresh(external).complete:
            pass
    assert len(reports) > 1
    assert reports[-1] == (FILES, FILES, "Indexing files")


def test_caller_waiting_for_another_update_gets_its_progress(large_project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search_index, "WAIT_SECONDS", 0.0)
    reports: list[Any] = []
    with open_floor(large_project) as shopfloor:
        index = shopfloor.engine.search
        index.update_all()
        index.files._pending = ["notes/1.txt", "notes/2.txt"]
        with index.files._lock:
            external = open_external(shopfloor, report=lambda *values: reports.append(values))
            assert not index.refresh(external).complete
    assert reports == [(FILES - 2, FILES, "Indexing files")]
