"""A call with a key happens once, however often it is sent."""

from __future__ import annotations

import threading

import pytest

from shopfloor.background.housekeeping import DEFAULT_RULES, list_periodic_tasks
from shopfloor.errors import IdempotencyKeyReused
from shopfloor.pipeline import build
from tests.operator_access import write_as_operator
from tests.workbench import PATIENCE, busy, run_together, wait_until, wrong_state

HELLO = {"text": "hello"}


@pytest.fixture
def token(shopfloor):
    return shopfloor.seed_agent("builder", "WORKER", with_token=True)[1]


@pytest.fixture
def send(shopfloor, token):
    def send_with_key(tool="note", input=None, key="k-1", token=token):
        return shopfloor.ask(tool, HELLO if input is None else input, key=key, token=token)

    return send_with_key


def test_same_key_and_input_return_the_first_result(shopfloor, send):
    first, second = send(), send()
    assert second.body == first.body
    assert (first.record.replayed, second.record.replayed) == (False, True)
    assert (shopfloor.traces(), shopfloor.tools.seen) == (["hello"], ["hello"])
    assert shopfloor.rows("SELECT count(*) FROM event WHERE name = 'decision.logged'") == [(1,)]


def test_repeated_call_is_logged(shopfloor, send):
    send(), send()
    assert [kind for kind, *_ in shopfloor.lines()] == ["invocation", "manual", "result", "invocation", "result"]


def test_the_order_of_the_arguments_does_not_matter(shopfloor, send):
    first = send("await", {"text": "x", "seconds": 0})
    assert send("await", {"seconds": 0, "text": "x"}).body == first.body
    assert shopfloor.tools.seen == ["x"] * 2  # it began to wait, and its deadline came


def test_explicit_null_equals_an_omitted_argument(shopfloor, token):
    mail = {"toHuman": True, "subject": "s", "body": "b"}
    for given in (mail, {**mail, "to": None}, {**mail, "importance": None, "toAgentId": None}):
        answer = shopfloor.ask("mcp__mail__send", given, toolset="factory", key="k-1", token=token)
        assert (answer.error, answer.record.replayed) == (None, given != mail)
    assert shopfloor.rows("SELECT count(*) FROM mail") == [(1,)]


def test_key_applies_to_tools_with_outside_effects(shopfloor, send):
    first = send("fetch")
    shopfloor.engine.database.store.flush()  # its answer is kept by a following commit
    again = send("fetch")
    assert (again.body, again.record.replayed) == (first.body, True)
    assert shopfloor.traces() == ["hello"]
    assert [kind for kind, *_ in shopfloor.lines()] == ["invocation", "manual", "result", "invocation", "result"]
    assert isinstance(send("fetch", {"text": "other"}).error, IdempotencyKeyReused)
    assert shopfloor.traces() == ["hello"]


def test_failed_outside_call_releases_its_key(shopfloor, send):
    shopfloor.tools.failures = [wrong_state()]
    assert send("fetch").error is not None
    assert (send("fetch", {"text": "other"}).error, shopfloor.traces()) == (None, ["other"])


@pytest.mark.parametrize(("tool", "input"), [("note", {"text": "other"}), ("await", HELLO)])
def test_same_key_with_other_input_is_rejected(shopfloor, send, tool, input):
    send()
    answer = send(tool, input)
    assert isinstance(answer.error, IdempotencyKeyReused)
    assert answer.body == {
        "error": "INVALID_INPUT",
        "message": "The idempotency key was used before with other input; use a new key for a new call.",
    }
    assert shopfloor.traces() == ["hello"]


def test_invalid_input_is_rejected_before_its_key_is_compared(shopfloor, send):
    send()
    answer = send("note", {"text": "hello", "more": 1})
    assert (answer.error.code, isinstance(answer.error, IdempotencyKeyReused)) == ("INVALID_INPUT", False)
    assert shopfloor.traces() == ["hello"]


def test_same_key_for_another_toolset_is_rejected(shopfloor, send, token):
    send()
    answer = shopfloor.ask(
        "mcp__system__log_decision", {"title": "a", "body": "b"}, toolset="factory", token=token, key="k-1"
    )
    assert isinstance(answer.error, IdempotencyKeyReused)


def test_another_key_runs_the_tool_again(shopfloor, send):
    send(key="k-1")
    send(key="k-2")
    assert shopfloor.traces() == ["hello", "hello"]


def test_callers_do_not_share_keys(shopfloor, send):
    tester = shopfloor.seed_agent("tester", "WORKER", with_token=True)[1]
    assert [send().record.replayed, send(token=tester).record.replayed] == [False, False]
    assert shopfloor.traces() == ["hello", "hello"]


def test_key_of_the_operator_belongs_to_the_principal_it_acts_as(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    shopfloor.ask("note", HELLO, key="k-1", claim="builder")
    assert shopfloor.ask("note", HELLO, key="k-1").record.replayed is False
    assert shopfloor.ask("note", HELLO, key="k-1", claim="builder").record.replayed is True


@pytest.mark.parametrize("error", [wrong_state(), RuntimeError("no")])
def test_call_without_an_effect_releases_its_key(shopfloor, send, error):
    shopfloor.tools.failures = [error]
    assert send().error is not None
    again = send()
    assert (again.error, again.record.replayed, shopfloor.traces()) == (None, False, ["hello"])


def test_retries_of_one_call_share_its_key(shopfloor, send):
    shopfloor.tools.failures = [busy(), busy()]
    assert send().record.replayed is False
    assert shopfloor.traces() == ["hello"]


def test_concurrent_calls_with_one_key_run_once_and_get_the_same_result(shopfloor, send):
    first, second, third = run_together(send, send, send)
    assert first.body == second.body == third.body
    assert sorted(answer.record.replayed for answer in (first, second, third)) == [False, True, True]
    assert shopfloor.traces() == ["hello"]


def test_repeated_call_waits_for_the_first_one_in_progress(shopfloor, send):
    running, go = threading.Event(), threading.Event()

    def hold(text):
        running.set()
        go.wait(PATIENCE)

    shopfloor.tools.inside = hold
    answers: list = []
    threads = [threading.Thread(target=lambda: answers.append(send())) for _ in range(2)]
    threads[0].start()
    assert running.wait(PATIENCE)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert answers[0].body == answers[1].body
    assert shopfloor.traces() == ["hello"]


def test_repeated_call_joins_the_wait_of_the_first_one(shopfloor, send, token):
    answers: list = []

    def ask():
        answers.append(send("await", {"text": "the mail came"}))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(shopfloor.tools.seen) >= 2)
    assert answers == []
    shopfloor.call("bench", "note", {"text": "the mail came"})
    for thread in threads:
        thread.join(PATIENCE)
    assert [answer.body for answer in answers] == [{"came": "the mail came"}] * 2
    assert send("await", {"text": "the mail came"}).record.replayed is True


def test_result_is_kept_for_a_day(shopfloor, send):
    task = next(task for task in list_periodic_tasks([]) if task.name == "kept answers")
    send()
    shopfloor.pass_time(DEFAULT_RULES.answers - 60_000_000)
    write_as_operator(shopfloor, task.action)
    assert send().record.replayed is True
    shopfloor.pass_time(120_000_000)
    write_as_operator(shopfloor, task.action)
    assert send().record.replayed is False


def test_another_replica_returns_the_first_result(open_workbench, send):
    first = send()
    token = open_workbench().issue_token(agent="builder")["token"]
    again = open_workbench().ask("note", HELLO, key="k-1", token=token)
    assert (again.body, again.record.replayed) == (first.body, True)


def test_calls_without_a_key_all_run(shopfloor, send):
    send(key=None), send(key=None)
    assert shopfloor.traces() == ["hello", "hello"]


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_call_with_a_key_that_equals_the_reference_of_another_call_is_its_own(shopfloor, send, token, monkeypatch):
    monkeypatch.setattr(build, "new_reference", lambda now, process: 7)
    first = shopfloor.ask("note", HELLO, token=token)
    second = send(input={"text": "other"}, key="ref-7")
    assert (first.error, second.error) == (None, None)
    assert shopfloor.traces() == ["hello", "other"]
