"""Progress of indexing, as the official client hears it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from shopfloor.domain.actors import OPERATOR
from shopfloor.gateways.tree import Tree
from shopfloor.repositories.work import Outside
from shopfloor.usecases import index, knowledge
from tests.context.support import make_project, open_floor
from tests.doors.server import SHOPFLOOR, environment, serving

FILES = 600

Heard = list[tuple[float, float | None, str | None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A project that takes more than one batch to index."""
    return make_project(tmp_path / "p", {f"notes/{n}.txt": f"The {n}th note on pangolins\n" for n in range(FILES)})


async def searched(client: Client) -> Heard:
    """What is heard while a search goes on."""
    heard: Heard = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    result = await client.call_tool("context_search", {"query": "pangolins"}, progress_callback=note)
    assert not result.is_error
    return heard


def grows(heard: Heard) -> bool:
    """Whether something is heard, more each time, of a whole that there is."""
    done = [each[0] for each in heard]
    whole = all(total is not None and total >= FILES and said == "Indexing files" for _, total, said in heard)
    return bool(heard) and done == sorted(set(done)) and whole


@pytest.mark.anyio
async def test_a_client_over_http_hears_how_far_the_index_is(crowded: Path):
    with serving(crowded, embeddings="off") as server:
        async with server.client("2026-07-28") as client:
            assert grows(await searched(client))


@pytest.mark.anyio
async def test_a_client_over_stdio_hears_how_far_the_index_is(crowded: Path):
    env = environment(project=crowded, embeddings="off")
    command = StdioServerParameters(command=sys.executable, args=[*SHOPFLOOR, "stdio"], env=env, cwd=crowded)
    with (crowded / "stderr").open("w") as errors:
        async with Client(stdio_client(command, errors), mode="legacy") as client:
            assert grows(await searched(client))


def test_progress_grows_from_batch_to_batch(crowded: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "BATCH", FILES // 6)
    heard: list[Any] = []
    with open_floor(crowded) as floor:
        outside = Outside(floor.floor.works, OPERATOR, 0, lambda *told: heard.append(told))
        while not knowledge.bring_up_to_date(outside).complete:
            pass
    assert len(heard) > 1
    assert heard[-1] == (FILES, FILES, "Indexing files")


def test_who_waits_for_another_to_index_hears_how_far_that_one_is(crowded: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(knowledge, "_PATIENCE", 0.0)
    heard: list[Any] = []
    with open_floor(crowded) as floor:
        floor.floor.indexer.catch_up()
        tree = floor.floor.works.gateways[Tree]
        tree.pending = ["notes/1.txt", "notes/2.txt"]
        with tree.turn:
            outside = Outside(floor.floor.works, OPERATOR, 0, lambda *told: heard.append(told))
            assert not knowledge.bring_up_to_date(outside).complete
    assert heard == [(FILES - 2, FILES, "Indexing files")]
