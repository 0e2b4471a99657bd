"""Pages of other sites: those that are allowed can really call, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.server import HTTP, Server, serving
from tests.doors.team import STATUS

PAGE = "https://app.example"
ASKING = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
VISITING = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("visited")
    with serving(folder, allowed_origins=f"{PAGE},http://localhost:5173") as server:
        yield server


@pytest.mark.parametrize("path", ["/mcp", "/mcp/execute"])
def test_a_page_that_is_allowed_may_ask_and_call_and_read(server: Server, path: str):
    asked = HTTP.options(f"{server.url}{path}", headers=VISITING | ASKING)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, PAGE)
    assert "POST" in asked.headers["access-control-allow-methods"]
    allowed = asked.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in ("authorization", "content-type", "idempotency-key", "mcp-protocol-version"))
    called = server.call(STATUS, headers=VISITING)
    assert (called.status_code, called.headers["access-control-allow-origin"]) == (200, PAGE)
    assert called.headers["vary"] == "Origin"
    for reply in (asked, called):
        assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", f"{PAGE}.evil.example", f"{PAGE}:444", "http://app.example"]
)
def test_another_page_may_neither_ask_nor_call(server: Server, origin: str):
    asked = HTTP.options(f"{server.url}/mcp", headers=VISITING | ASKING | {"Origin": origin})
    called = server.call(STATUS, headers=VISITING | {"Origin": origin})
    for reply in (asked, called):
        assert reply.status_code == 403
        assert not [name for name in reply.headers if name.startswith("access-control-")]


def test_who_is_no_page_hears_nothing_of_this(server: Server):
    for origin in ({}, {"Origin": server.url}):
        reply = server.call(STATUS, headers=origin)
        assert reply.status_code == 200
        assert not [name for name in reply.headers if name.startswith("access-control-")]
    assert HTTP.options(f"{server.url}/mcp", headers=ASKING).status_code == 405
