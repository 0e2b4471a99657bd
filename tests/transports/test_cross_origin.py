"""Cross-origin requests: allowed origins can call, others cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transports.server import HTTP, Server, run, serving
from tests.transports.team import STATUS

ALLOWED_ORIGIN = "https://app.example"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
CROSS_ORIGIN = {"Origin": ALLOWED_ORIGIN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("visited")
    run("agent", "add", "worker", cwd=folder)
    with serving(folder, allowed_origins=f"{ALLOWED_ORIGIN},http://localhost:5173") as server:
        yield server


@pytest.mark.parametrize("path", ["/mcp", "/mcp/execute"])
def test_allowed_origin_can_preflight_and_call(server: Server, path: str):
    preflight = HTTP.options(f"{server.url}{path}", headers=CROSS_ORIGIN | PREFLIGHT)
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, ALLOWED_ORIGIN)
    assert "POST" in preflight.headers["access-control-allow-methods"]
    allowed = preflight.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in ("authorization", "content-type", "idempotency-key", "mcp-protocol-version"))
    called = server.call(STATUS, token=server.operator, headers=CROSS_ORIGIN)
    assert (called.status_code, called.headers["access-control-allow-origin"]) == (200, ALLOWED_ORIGIN)
    assert called.headers["vary"] == "Origin"
    for reply in (preflight, called):
        assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", f"{ALLOWED_ORIGIN}.evil.example", f"{ALLOWED_ORIGIN}:444", "http://app.example"],
)
def test_other_origins_can_neither_preflight_nor_call(server: Server, origin: str):
    preflight = HTTP.options(f"{server.url}/mcp", headers=CROSS_ORIGIN | PREFLIGHT | {"Origin": origin})
    called = server.call(STATUS, headers=CROSS_ORIGIN | {"Origin": origin})
    for reply in (preflight, called):
        assert reply.status_code == 403
        assert not [name for name in reply.headers if name.startswith("access-control-")]


def test_requests_without_a_foreign_origin_get_no_cors_headers(server: Server):
    for origin in ({}, {"Origin": server.url}):
        reply = server.call(STATUS, token=server.operator, headers=origin)
        assert reply.status_code == 200
        assert not [name for name in reply.headers if name.startswith("access-control-")]
    assert HTTP.options(f"{server.url}/mcp", headers=PREFLIGHT).status_code == 405
