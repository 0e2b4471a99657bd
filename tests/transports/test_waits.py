"""Waiting calls whose caller disconnects or loses its token."""

from __future__ import annotations

import json
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.transports.server import request, wait_until
from tests.transports.team import TRANSPORTS, Team

SEND, WAIT, INBOX = "mcp__mail__send", "mcp__mail__wait", "mcp__mail__list_inbox"


@pytest.fixture
def waiter(either_team: Team) -> str:
    """A new agent of the team."""
    name = f"waiter-{uuid.uuid4().hex[:12]}"
    either_team.tokens[name] = either_team.server.agent(name)
    return name


def read_rows(team: Team, who: str) -> list[tuple[str, str | None]]:
    found = team.server.rows(
        f"SELECT kind, code FROM decision WHERE tool = '{WAIT}' AND subject = 'agent:{who}' ORDER BY id"
    )
    return [(kind, code) for kind, code in found]


def build_waiting_call(team: Team, transport: str, who: str) -> bytes:
    """Build the bytes of a call that waits."""
    input = {"timeoutSeconds": 55}
    body, headers = request(
        "tools/call", {"name": WAIT, "arguments": input}, era="legacy" if transport == "execute" else transport
    )
    if transport == "execute":
        body, headers = {"toolName": WAIT, "input": input}, {"Content-Type": "application/json"}
    text = json.dumps(body)
    host, port = team.server.address
    lines = [f"POST {'/mcp/execute' if transport == 'execute' else '/mcp'} HTTP/1.1", f"Host: {host}:{port}"]
    lines += [f"{name}: {value}" for name, value in {**headers, **team.headers(who)}.items()]
    return "\r\n".join([*lines, f"Content-Length: {len(text)}", "", text]).encode()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_waiting_call_ends_when_its_caller_disconnects(either_team: Team, waiter: str, transport: str):
    with socket.create_connection(either_team.server.address) as connection:
        connection.sendall(build_waiting_call(either_team, transport, waiter))
        wait_until(lambda: read_rows(either_team, waiter) == [("invocation", None)])
    wait_until(lambda: read_rows(either_team, waiter) == [("invocation", None), ("error", "TRANSIENT_ERROR")])
    either_team.execute("supervisor", SEND, {"toAgentId": waiter, "subject": "s", "body": "b"})
    assert either_team.execute(waiter, INBOX).json()["data"]["unreadCount"] == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_waiting_call_of_a_revoked_token_returns_nothing(either_team: Team, waiter: str, transport: str):
    team = either_team
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(team.ask, transport, waiter, WAIT, {"timeoutSeconds": 55})
        wait_until(lambda: read_rows(team, waiter) == [("invocation", None)])
        team.server.cli("token", "revoke", team.tokens[waiter].split("_")[1])
        team.execute("supervisor", SEND, {"toAgentId": waiter, "subject": "secret subject", "body": "b"})
        answer = waiting.result()
    assert (answer.status, answer.code) == (401 if transport == "execute" else 200, "PERMISSION_DENIED")
    assert "secret subject" not in answer.response.text
    wait_until(lambda: read_rows(team, waiter) == [("invocation", None), ("error", "PERMISSION_DENIED")])
