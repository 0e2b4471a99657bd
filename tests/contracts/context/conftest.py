from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from shopfloor.domain.principals import OPERATOR
from shopfloor.serving import Shopfloor
from shopfloor.toolkit import Credential
from shopfloor.transports import mcp_server
from tests.toolsets.context.support import make_project, open_floor


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir(exist_ok=True)
    return make_project(root)


@pytest.fixture
def shopfloor(project: Path) -> Iterator[Shopfloor]:
    with open_floor(project) as shopfloor:
        yield shopfloor


@pytest.fixture
async def client(shopfloor: Shopfloor) -> AsyncIterator[Client]:
    """The official client, connected to the toolset's own MCP server."""
    toolset = shopfloor.engine.toolsets["context"]
    async with Client(
        mcp_server.build_server(shopfloor.engine, [toolset], "mcp", Credential(trusted=OPERATOR))
    ) as client:
        yield client


@pytest.fixture
def call(client: Client) -> Callable[..., Any]:
    """Calls a tool and returns its result and whether it is an error. Text and structured content must be equal."""

    async def call(tool: str, **given: Any) -> tuple[Any, bool]:
        result = await client.call_tool(tool, given)
        body = json.loads(result.content[0].text)  # type: ignore[union-attr]
        assert result.structured_content == body
        return body, bool(result.is_error)

    return call
