"""No call without its rows in the log: the texts of the contract, who acted and who called, secrets masked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shopfloor.domain.decisions import CONTEXT_LIMIT
from shopfloor.domain.times import MINUTE, SECOND
from tests.workbench import DECISION, LOG_DECISION, STATUS, wrong_state

FIXED = ("kind", "subject", "actor", "toolset", "tool", "decision", "reasoning", "context", "code", "count")


def row(entry):
    """Everything but numbers and times."""
    return {key: value for key, value in asdict(entry).items() if key in FIXED}


def expected(
    kind, subject="agent:builder", actor="operator:operator", toolset="bench", tool="note", context="{}", **more
):
    words = {
        "invocation": (f"Invoked tool: {tool}", "Automatic tool invocation log"),
        "result": (f"Tool result: {tool}", "Automatic tool result log"),
        "error": (f"Tool error: {tool}", "Automatic tool error log"),
    }
    decision, reasoning = words.get(kind, ("", ""))
    return {
        "kind": kind,
        "subject": subject,
        "actor": actor,
        "toolset": toolset,
        "tool": tool,
        "decision": decision,
        "reasoning": reasoning,
        "context": context,
        "code": None,
        "count": 1,
    } | more


@pytest.fixture
def token(floor):
    return floor.hire("builder", "WORKER", with_token=True)[1]


def test_a_call_that_writes_leaves_what_went_in_what_it_did_and_what_came_out(floor, token):
    floor.call("bench", "note", {"text": "hello"}, "builder")
    rows = floor.log()
    assert [row(entry) for entry in rows] == [
        expected("invocation", context='{"text":"hello"}'),
        expected("manual", actor="agent:builder", decision="hello", reasoning="left by a tool of the test"),
        expected("result", context=json.dumps({"noted": "hello", "log": rows[1].id}, separators=(",", ":"))),
    ]


@pytest.mark.parametrize("tool", ["look", "fetch"])
def test_reading_and_reaching_out_leave_the_same_two_rows(floor, token, tool):
    floor.call("bench", tool, {"text": "x"}, "builder")
    rows = [row(entry) for entry in floor.log() if entry.kind != "manual"]
    assert rows[0] == expected("invocation", tool=tool, context='{"text":"x"}')
    assert rows[1] == expected("result", tool=tool, context=rows[1]["context"])


def test_a_refused_call_leaves_what_went_in_and_why_not(floor, token):
    floor.tools.failures = [wrong_state()]
    floor.call("bench", "note", {"text": "x"}, "builder")
    context = '{"message":"The agent holds no task","code":"INVALID_AGENT_STATE"}'
    assert [row(entry) for entry in floor.log()] == [
        expected("invocation", context='{"text":"x"}'),
        expected("error", context=context, code="INVALID_AGENT_STATE"),
    ]


def test_a_failed_call_keeps_its_stack_for_people(floor, token):
    floor.tools.failures = [RuntimeError("the belt broke")]
    floor.call("bench", "note", {"text": "x"}, "builder")
    invocation, error = floor.log()
    assert row(error) == expected(
        "error", context='{"message":"RuntimeError: the belt broke","code":"INTERNAL_ERROR"}', code="INTERNAL_ERROR"
    )
    assert floor.stack(invocation) is None
    assert "RuntimeError: the belt broke" in floor.stack(error)
    assert "Traceback" not in error.context


def test_a_refusal_has_no_stack(floor):
    floor.tools.failures = [wrong_state()]
    floor.call("bench", "note", {"text": "x"})
    assert floor.stack(floor.log()[-1]) is None


@pytest.mark.parametrize(
    ("tool", "input", "claim", "code", "message"),
    [
        ("nope", {}, None, "TOOL_NOT_FOUND", "Tool 'nope' does not exist."),
        ("forbidden", {}, None, "PERMISSION_DENIED", "Tool 'forbidden' is not allowed for agent type 'WORKER'"),
        ("note", {}, None, "INVALID_INPUT", "'text' is required"),
        ("note", {"text": "x"}, "boss", "PERMISSION_DENIED", "The credential belongs to 'builder', not to 'boss'"),
    ],
)
def test_whatever_is_refused_is_logged_under_who_really_called(floor, token, tool, input, claim, code, message):
    answer = floor.ask(tool, input, token=token, claim=claim)
    assert answer.body == {"error": code, "message": message}
    context = json.dumps({"message": message, "code": code}, separators=(",", ":"))
    assert [row(entry) for entry in floor.log()] == [
        expected("invocation", actor="agent:builder", tool=tool, context=json.dumps(input, separators=(",", ":"))),
        expected("error", actor="agent:builder", tool=tool, context=context, code=code),
    ]


def test_an_agent_that_does_not_exist_is_logged_under_the_operator_who_named_it(floor):
    assert floor.ask("note", {"text": "x"}, claim="ghost").body["error"] == "AGENT_NOT_FOUND"
    assert {(entry.subject, entry.actor) for entry in floor.log()} == {("operator:local", "operator:local")}


def test_the_manual_kind_is_what_the_agent_wrote(floor, token):
    floor.ask(LOG_DECISION, DECISION, toolset="factory", token=token)
    (manual,) = [entry for entry in floor.log() if entry.kind == "manual"]
    assert row(manual) == expected(
        "manual",
        actor="agent:builder",
        toolset="factory",
        tool=LOG_DECISION,
        decision=DECISION["title"],
        reasoning=DECISION["body"],
    )


def test_a_row_tells_how_long_it_took(floor):
    floor.call("bench", "note", {"text": "x"})
    invocation, _, result = floor.log()
    assert (invocation.duration, result.duration) == (None, result.created_at - invocation.created_at)
    assert result.duration >= 0


def test_rows_that_nobody_waited_for_arrive_with_a_following_commit(floor, token):
    answer = floor.call("factory", STATUS, {}, "builder")
    floor.floor.works.store.flush()
    kinds = floor.rows("SELECT kind, context FROM decision ORDER BY id")
    assert kinds == [("invocation", "{}"), ("result", json.dumps(answer["data"], separators=(",", ":")))]


def test_a_large_context_is_cut_to_its_limit_and_keeps_its_size_and_hash(floor):
    text = "x" * 20_000
    floor.call("bench", "note", {"text": text})
    whole = json.dumps({"text": text}, separators=(",", ":"))
    context = json.loads(floor.log()[0].context)
    assert len(floor.log()[0].context) <= CONTEXT_LIMIT
    assert context == {
        "truncated": True,
        "size": len(whole),
        "sha256": hashlib.sha256(whole.encode()).hexdigest(),
        "head": whole[: CONTEXT_LIMIT // 2],
    }


def test_if_the_log_cannot_be_written_a_tool_that_writes_has_no_effect(floor):
    floor.break_the_log()
    floor.tools.inside = lambda text: None
    answer = floor.call("bench", "note", {"text": "x"})
    assert answer["error"] == "INTERNAL_ERROR"
    floor.mend_the_log()
    assert floor.log() == []
    assert floor.rows("SELECT count(*) FROM event WHERE name = 'decision.logged'") == [(0,)]


def test_if_the_log_cannot_be_written_a_tool_outside_does_not_even_begin(floor):
    floor.break_the_log()
    assert floor.call("bench", "fetch", {"text": "x"})["error"] == "INTERNAL_ERROR"
    assert floor.tools.seen == []


def test_if_the_log_cannot_be_written_looking_still_works(floor):
    floor.break_the_log()
    assert floor.call("bench", "look", {"text": "x"}) == {"looked": "x"}


TOKENS = st.sampled_from(
    [
        "sfa_abcdefghjkmn_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE",
        "sfo_abcdefghjkmn_-_9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlc2lnbmF0dXJl",
        "sk-proj-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijkl",
        "xoxb-1234567890-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-abcdefghijklmnopqrstuvwxyz012345",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
        "Bearer abcdefghijklmnopqrst",
        "postgres://admin:hunter2hunter2@db.internal/app",
    ]
)
NAMES = st.sampled_from(
    ["password", "DB_PASSWORD", "passwd", "client_secret", "accessToken", "api_key", "apiKey", "X-Api-Key",
     "Authorization", "Set-Cookie", "credentials", "private_key", "passphrase"]
)  # fmt: skip
PROSE = st.text(alphabet=st.characters(blacklist_categories=["Cs", "L", "N"], blacklist_characters="\x00_-./+=~"))
HIDDEN = "hunter2-planted"
PLANTED = st.one_of(
    st.builds(lambda before, token, after: {"text": f"{before}{token}{after}"}, PROSE, TOKENS, PROSE),
    st.builds(lambda token: {"text": json.dumps({"deep": [token]})}, TOKENS),
    st.builds(lambda name, value: {name: value}, NAMES, st.sampled_from([HIDDEN, [HIDDEN], {"a": HIDDEN}, 424242])),
    st.builds(lambda name: {"a": [{"b": {name: HIDDEN}}]}, NAMES),
    st.builds(lambda name: {"text": json.dumps({name: HIDDEN})}, NAMES),
    st.builds(lambda name: {name: "\ud800" + HIDDEN}, NAMES),
)
GIVEAWAYS = [
    "Zm9vYmFy", "9vYmFyYmF6", "c2lnbmF0", "abcdefghijkl", "1234567890-abc", "IOSFODNN7", "MIIEpAIB", "hunter2", "424242"
]  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(planted=PLANTED)
def test_a_planted_secret_never_reaches_the_log(keeper, planted):
    floor, last = keeper
    floor.ask("note", planted)
    rows = floor.floor.look(lambda work: work.decisions.page(limit=10))
    fresh = [entry for entry in rows if entry.id > last[0]]
    last[0] = fresh[0].id
    assert len(fresh) in (2, 3)
    text = json.dumps([asdict(entry) for entry in fresh])
    assert [giveaway for giveaway in GIVEAWAYS if giveaway in text] == []


@pytest.fixture
def keeper(floor):
    return floor, [0]


def test_secrets_in_a_failure_are_masked_in_its_message_its_stack_and_its_escalation(floor):
    floor.tools.failures = [RuntimeError("cannot log in with sk-live-abcdefghijklmnop")]
    floor.call("bench", "note", {"text": "x"})
    error = floor.log()[-1]
    (escalation,) = floor.escalations()
    assert error.context == '{"message":"RuntimeError: cannot log in with ***","code":"INTERNAL_ERROR"}'
    assert escalation.message == "cannot log in with ***"
    for text in (floor.stack(error), escalation.stack):
        assert "RuntimeError: cannot log in with ***" in text
        assert "abcdefghijklmnop" not in text


def test_a_secret_in_a_decision_of_an_agents_own_is_masked_as_well(floor):
    floor.call("factory", LOG_DECISION, {"title": "Rotated ghp_abcdefghijklmnopqrstuvwxyz", "body": "It leaked"})
    assert floor.traces() == ["Rotated ***"]


def limited(floor, subject, now, times=1):
    for _ in range(times):
        floor.floor.administer(
            lambda work: work.decisions.count_limited(
                reference=7, since=now - MINUTE, subject=subject, toolset="bench", tool="look", now=now
            )
        )


def test_the_calls_over_a_limit_are_one_row_a_window_with_a_count(floor):
    limited(floor, "agent:builder", 1_000 * MINUTE, times=5)
    limited(floor, "agent:tester", 1_000 * MINUTE)
    limited(floor, "agent:builder", 1_000 * MINUTE + 30 * SECOND)
    limited(floor, "agent:builder", 1_001 * MINUTE + SECOND)
    rows = [(entry.kind, entry.subject, entry.decision, entry.code, entry.count) for entry in floor.log()]
    assert rows == [
        ("limited", "agent:builder", "Rate limited: look", "RATE_LIMITED", 6),
        ("limited", "agent:tester", "Rate limited: look", "RATE_LIMITED", 1),
        ("limited", "agent:builder", "Rate limited: look", "RATE_LIMITED", 1),
    ]
