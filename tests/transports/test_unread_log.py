"""A server whose standard error is a pipe that is never read."""

from __future__ import annotations

import fcntl
import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import pytest

from shopfloor.gateways.logs import FLUSH_SECONDS
from shopfloor.transports.server import DRAIN_SECONDS, STOP_SECONDS
from tests.transports.server import Server, request
from tests.transports.team import STATUS

PIPE_BYTES = 4096
CALLS = 300


@contextmanager
def small_pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


def is_full(writer: int) -> bool:
    return not select.select([], [writer], [], 0)[1]


@pytest.mark.parametrize("path", ["/mcp/execute", "/mcp"])
def test_full_log_pipe_does_not_delay_calls_health_or_the_stop(new_server: Callable[..., Server], path: str):
    with small_pipe() as (_, writer), new_server(stderr=writer, log="json", log_level="info") as server:
        with httpx2.Client(base_url=server.url, timeout=300) as client:
            body, headers = request("tools/call", {"name": STATUS, "arguments": {}})
            if path == "/mcp/execute":
                body, headers = {"toolName": STATUS, "input": {}}, {}
            for _ in range(CALLS):
                assert client.post(path, json=body, headers=headers).status_code == 200
            assert is_full(writer)
            assert client.get("/healthz").json() == {"status": "alive"}
        code, seconds = server.stop()
        assert code == 0
        assert seconds < FLUSH_SECONDS + DRAIN_SECONDS + STOP_SECONDS
