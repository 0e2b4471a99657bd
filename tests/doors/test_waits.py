"""Calls that wait, and callers who go away or lose their right in the meantime."""

from __future__ import annotations

import json
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.doors.server import request, until
from tests.doors.team import DOORS, Team

SEND, WAIT, INBOX = "mcp__mail__send", "mcp__mail__wait", "mcp__mail__list_inbox"


@pytest.fixture
def waiter(either_team: Team) -> str:
    """A new agent, whose token is its name in the team."""
    name = f"waiter-{uuid.uuid4().hex[:12]}"
    either_team.tokens[name] = either_team.server.agent(name)
    return name


def rows(team: Team, who: str) -> list[tuple[str, str | None]]:
    found = team.server.rows(
        f"SELECT kind, code FROM decision WHERE tool = '{WAIT}' AND subject = 'agent:{who}' ORDER BY id"
    )
    return [(kind, code) for kind, code in found]


def begin(team: Team, door: str, who: str) -> bytes:
    """A call that waits for a long time, as it goes over the wire."""
    given = {"timeoutSeconds": 55}
    body, headers = request(
        "tools/call", {"name": WAIT, "arguments": given}, era="legacy" if door == "execute" else door
    )
    if door == "execute":
        body, headers = {"toolName": WAIT, "input": given}, {"Content-Type": "application/json"}
    text = json.dumps(body)
    host, port = team.server.address
    lines = [f"POST {'/mcp/execute' if door == 'execute' else '/mcp'} HTTP/1.1", f"Host: {host}:{port}"]
    lines += [f"{name}: {value}" for name, value in {**headers, **team.headers(who)}.items()]
    return "\r\n".join([*lines, f"Content-Length: {len(text)}", "", text]).encode()


@pytest.mark.parametrize("door", DOORS)
def test_who_goes_away_while_waiting_is_no_longer_waited_for(either_team: Team, waiter: str, door: str):
    with socket.create_connection(either_team.server.address) as connection:
        connection.sendall(begin(either_team, door, waiter))
        until(lambda: rows(either_team, waiter) == [("invocation", None)])
    until(lambda: rows(either_team, waiter) == [("invocation", None), ("error", "TRANSIENT_ERROR")])
    either_team.execute("supervisor", SEND, {"toAgentId": waiter, "subject": "s", "body": "b"})
    assert either_team.execute(waiter, INBOX).json()["data"]["unreadCount"] == 1


@pytest.mark.parametrize("door", DOORS)
def test_who_is_shut_out_while_waiting_gets_nothing_of_what_came(either_team: Team, waiter: str, door: str):
    team = either_team
    with ThreadPoolExecutor(1) as hand:
        waiting = hand.submit(team.ask, door, waiter, WAIT, {"timeoutSeconds": 55})
        until(lambda: rows(team, waiter) == [("invocation", None)])
        team.server.cli("token", "revoke", team.tokens[waiter].split("_")[1])
        team.execute("supervisor", SEND, {"toAgentId": waiter, "subject": "secret subject", "body": "b"})
        answer = waiting.result()
    assert (answer.status, answer.code) == (401 if door == "execute" else 200, "PERMISSION_DENIED")
    assert "secret subject" not in answer.response.text
    until(lambda: rows(team, waiter) == [("invocation", None), ("error", "PERMISSION_DENIED")])
