"""Questions of agents that the person at the client may answer there, with the official client."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio import to_thread
from mcp.client import Client
from mcp.shared.exceptions import MCPDeprecationWarning

from shopfloor.app import TOOLSETS
from tests.transports.server import PATIENCE
from tests.transports.team import STATUS, Team
from tests.transports.test_stdio import open_stdio

ASK = "mcp__mail__ask"
QUESTION = {"subject": "Colour", "body": "Which colour?", "options": ["red", "blue"]}
LEGACY_STDIO, STATELESS_STDIO, STATELESS_HTTP = ("stdio", "legacy"), ("stdio", "2026-07-28"), ("http", "2026-07-28")

Form = Callable[[str, dict[str, Any]], Awaitable[types.ElicitResult]]

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _ignore_deprecations() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield


@asynccontextmanager
async def connect(team: Team, way: tuple[str, str], form: Form | None, **settings: Any) -> AsyncIterator[Client]:
    """Connect as worker_a, with a form that the client shows."""
    transport, era = way

    async def show(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        assert form is not None
        return await form(params.message, params.requested_schema)

    callback: Any = None if form is None else show
    if transport == "http":
        async with team.server.client(era, team.tokens["worker_a"], elicitation_callback=callback) as client:
            yield client
    else:
        stdio = open_stdio(team.server.folder, "--as", "worker_a", **settings)
        async with Client(stdio, mode=era, elicitation_callback=callback) as client:
            yield client


def fill_in(**content: str) -> Form:
    async def form(_: str, __: dict[str, Any]) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=content)

    return form


async def never_shown(message: str, _: dict[str, Any]) -> types.ElicitResult:
    raise AssertionError(f"the client was asked: {message}")


async def ask(client: Client, **arguments: Any) -> dict[str, Any]:
    with anyio.fail_after(PATIENCE):
        result = await client.call_tool(ASK, arguments)
    data: dict[str, Any] = (result.structured_content or {})["data"]
    return data


async def run_command(team: Team, *arguments: str) -> str:
    return (await to_thread.run_sync(lambda: team.server.run(*arguments))).stdout


@pytest.mark.parametrize("way", [LEGACY_STDIO, STATELESS_STDIO, STATELESS_HTTP])
async def test_answer_in_the_client_is_stored_with_its_provenance(team: Team, way: tuple[str, str]):
    shown = []

    async def form(message: str, schema: dict[str, Any]) -> types.ElicitResult:
        shown.append((message, schema["properties"]["answer"]["enum"]))
        return types.ElicitResult(action="accept", content={"answer": "blue"})

    async with connect(team, way, form) as client:
        answer = await ask(client, **QUESTION)
        inbox = (await client.call_tool("mcp__mail__list_inbox", {})).structured_content or {}
    assert shown == [("worker_a asks: Colour\n\nWhich colour?", ["red", "blue"])]
    assert (answer["state"], answer["answer"], answer["answeredIn"]) == ("ANSWERED", "blue", "client")
    assert inbox["data"]["unreadCount"] == 0

    mail = json.loads(await run_command(team, "inbox", "read", answer["ticket"], "--json"))
    question = mail["question"]
    assert (question["answer"], question["answeredBy"], question["answeredIn"]) == ("blue", "worker_a", "client")
    assert mail["actedAt"] is not None
    text = await run_command(team, "inbox", "read", answer["ticket"])
    assert "Answer:  blue (in the client of worker_a, " in text
    number = answer["ticket"].removeprefix("mail-")
    [reply] = team.server.rows(f"SELECT sender, sender_type, subject, body FROM mail WHERE in_reply_to = {number}")
    note = "(Answered in the client of worker_a, not in the inbox.)"
    assert reply == ("agent:worker_a", "WORKER", "Re: Colour", f"blue\n\n{note}")
    results = team.server.rows(
        f"""
        SELECT context FROM decision
        WHERE tool = '{ASK}' AND context LIKE '%"ticket":"{answer["ticket"]}"%' AND context LIKE '%"answeredIn":"client"%'
        """
    )
    assert results


@pytest.mark.parametrize("way", [LEGACY_STDIO, STATELESS_HTTP])
@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (fill_in(answer="red", ownWords="a dark green"), "a dark green"),
        (fill_in(answer=" "), None),
        (fill_in(answer="a\0b"), None),
        (fill_in(answer="x" * 60_001), None),
        (fill_in(other="red"), None),
    ],
    ids=["own words", "blank", "nul", "too long", "another field"],
)
async def test_only_a_usable_answer_is_taken(team: Team, way: tuple[str, str], form: Form, expected: str | None):
    async with connect(team, way, form) as client:
        answer = await ask(client, **QUESTION, timeoutSeconds=30 if expected else 1)
    assert (answer["state"], answer["answer"]) == ("ANSWERED" if expected else "OPEN", expected)


@pytest.mark.parametrize("way", [LEGACY_STDIO, STATELESS_HTTP])
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_question_stays_open_in_the_inbox(team: Team, way: tuple[str, str], action: Any):
    async def form(_: str, __: dict[str, Any]) -> types.ElicitResult:
        return types.ElicitResult(action=action)

    async with connect(team, way, form) as client:
        asked = await ask(client, **QUESTION, timeoutSeconds=1)
        assert asked["state"] == "OPEN"
        await run_command(team, "inbox", "answer", asked["ticket"], "red")
        answer = await ask(client, ticket=asked["ticket"])
    assert (answer["answer"], "answeredIn" in answer) == ("red", False)


async def test_answer_in_the_inbox_closes_the_form(team: Team):
    closed = anyio.Event()

    async def form(_: str, __: dict[str, Any]) -> types.ElicitResult:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            closed.set()
            raise
        raise AssertionError

    async def answer_in_inbox() -> None:
        number = None
        while number is None:
            rows = team.server.rows("SELECT max(id) FROM mail WHERE subject = 'Which one first'")
            [[number]] = rows
            await anyio.sleep(0.05)
        await run_command(team, "inbox", "answer", f"mail-{number}", "red")

    async with connect(team, LEGACY_STDIO, form) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(answer_in_inbox)
        answer = await ask(client, subject="Which one first", body="Red or blue?")
        with anyio.fail_after(PATIENCE):
            await closed.wait()
    assert (answer["state"], answer["answer"], "answeredIn" in answer) == ("ANSWERED", "red", False)


async def test_first_answer_wins(team: Team):
    async def form(_: str, __: dict[str, Any]) -> types.ElicitResult:
        [[number]] = team.server.rows("SELECT max(mail) FROM question")
        await run_command(team, "inbox", "answer", f"mail-{number}", "red")
        return types.ElicitResult(action="accept", content={"answer": "blue"})

    async with connect(team, STATELESS_HTTP, form) as client:
        answer = await ask(client, **QUESTION)
    assert (answer["answer"], "answeredIn" in answer) == ("red", False)


async def test_form_outlives_the_call_that_asked(team: Team):
    returned = anyio.Event()

    async def form(_: str, __: dict[str, Any]) -> types.ElicitResult:
        await returned.wait()
        return types.ElicitResult(action="accept", content={"answer": "late"})

    async with connect(team, LEGACY_STDIO, form) as client:
        asked = await ask(client, body="Are you there?", timeoutSeconds=1)
        returned.set()
        answer = await ask(client, ticket=asked["ticket"])
    assert (asked["state"], answer["state"], answer["answer"]) == ("OPEN", "ANSWERED", "late")


async def test_client_is_not_asked_when_the_setting_is_off(team: Team):
    async with connect(team, LEGACY_STDIO, never_shown, elicitation=False) as client:
        answer = await ask(client, **QUESTION, timeoutSeconds=1)
    assert answer["state"] == "OPEN"


@pytest.mark.parametrize(
    ("way", "form"), [(LEGACY_STDIO, None), (STATELESS_HTTP, None), (("http", "legacy"), never_shown)]
)
async def test_question_waits_in_the_inbox_for_a_client_without_forms(
    team: Team, way: tuple[str, str], form: Form | None
):
    async with connect(team, way, form) as client:
        answer = await ask(client, **QUESTION, timeoutSeconds=1)
    assert answer["state"] == "OPEN"


async def test_no_question_that_grants_rights_is_shown_in_a_client():
    tools = [tool.name for toolset in TOOLSETS.values() for tool in toolset.tools.values() if tool.elicits]
    assert tools == [ASK]


@pytest.mark.parametrize(
    ("tool", "state", "code"),
    [
        (STATUS, "{}", -32602),
        (ASK, "no JSON", -32602),
        (ASK, "[]", -32602),
        (ASK, '{"ticket":"mail-999999"}', "RESOURCE_NOT_FOUND"),
        (ASK, "foreign", "PERMISSION_DENIED"),
    ],
)
async def test_forged_state_answers_no_question(team: Team, tool: str, state: str, code: int | str):
    if state == "foreign":
        asked = team.execute("worker_b", ASK, {"body": "Mine?", "timeoutSeconds": 0}).json()["data"]
        state = json.dumps({"ticket": asked["ticket"]})
    params = {
        "name": tool,
        "arguments": {},
        "requestState": state,
        "inputResponses": {"answer": {"action": "accept", "content": {"answer": "forged"}}},
    }
    reply = team.server.rpc("tools/call", params, token=team.tokens["worker_a"], era="2026-07-28").json()
    error = reply["error"] if "error" in reply else reply["result"]["structuredContent"]["error"]
    assert error["code"] == code
    assert team.server.rows("SELECT count(*) FROM question WHERE answer = 'forged'") == [(0,)]
