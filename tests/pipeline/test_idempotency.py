"""A call with a key happens once, however often it is sent."""

from __future__ import annotations

import threading

import pytest

from shopfloor.background.housekeeping import ANSWERS_KEPT, chores
from shopfloor.errors import KeyReused
from tests.workbench import PATIENCE, busy, together, until, wrong_state

HELLO = {"text": "hello"}


@pytest.fixture
def token(floor):
    return floor.hire("builder", "WORKER", with_token=True)[1]


@pytest.fixture
def send(floor, token):
    def sent(tool="note", input=None, key="k-1", token=token):
        return floor.ask(tool, HELLO if input is None else input, key=key, token=token)

    return sent


def test_the_same_key_and_input_get_the_first_answer(floor, send):
    first, second = send(), send()
    assert second.body == first.body
    assert (first.call.replayed, second.call.replayed) == (False, True)
    assert (floor.traces(), floor.tools.seen) == (["hello"], ["hello"])
    assert floor.rows("SELECT count(*) FROM event WHERE name = 'decision.logged'") == [(1,)]


def test_the_second_call_is_in_the_log_as_well(floor, send):
    send(), send()
    assert [kind for kind, *_ in floor.lines()] == ["invocation", "manual", "result", "invocation", "result"]


def test_the_order_of_the_arguments_does_not_matter(floor, send):
    first = send("await", {"text": "x", "seconds": 0})
    assert send("await", {"seconds": 0, "text": "x"}).body == first.body
    assert floor.tools.seen == ["x"] * 2  # it began to wait, and its deadline came


def test_an_explicit_null_counts_as_left_out(floor, token):
    mail = {"toHuman": True, "subject": "s", "body": "b"}
    for given in (mail, {**mail, "to": None}, {**mail, "importance": None, "toAgentId": None}):
        answer = floor.ask("mcp__mail__send", given, toolset="factory", key="k-1", token=token)
        assert (answer.error, answer.call.replayed) == (None, given != mail)
    assert floor.rows("SELECT count(*) FROM mail") == [(1,)]


def test_a_key_counts_for_what_happens_outside_too(floor, send):
    first = send("fetch")
    floor.floor.works.store.flush()  # its answer is kept by a following commit
    again = send("fetch")
    assert (again.body, again.call.replayed) == (first.body, True)
    assert floor.traces() == ["hello"]
    assert [kind for kind, *_ in floor.lines()] == ["invocation", "manual", "result", "invocation", "result"]
    assert isinstance(send("fetch", {"text": "other"}).error, KeyReused)
    assert floor.traces() == ["hello"]


def test_what_failed_outside_leaves_its_key_free(floor, send):
    floor.tools.failures = [wrong_state()]
    assert send("fetch").error is not None
    assert (send("fetch", {"text": "other"}).error, floor.traces()) == (None, ["other"])


@pytest.mark.parametrize(
    ("tool", "input"), [("note", {"text": "other"}), ("await", HELLO), ("note", {"text": "hello", "more": 1})]
)
def test_the_same_key_for_something_else_is_refused(floor, send, tool, input):
    send()
    answer = send(tool, input)
    if "more" not in input:
        assert isinstance(answer.error, KeyReused)
        assert answer.body == {
            "error": "INVALID_INPUT",
            "message": "The idempotency key was used before with other input; use a new key for a new call.",
        }
    assert answer.error.code == "INVALID_INPUT"
    assert floor.traces() == ["hello"]


def test_the_same_tool_of_another_toolset_is_something_else(floor, send, token):
    send()
    answer = floor.ask(
        "mcp__system__log_decision", {"title": "a", "body": "b"}, toolset="factory", token=token, key="k-1"
    )
    assert isinstance(answer.error, KeyReused)


def test_another_key_is_another_call(floor, send):
    send(key="k-1")
    send(key="k-2")
    assert floor.traces() == ["hello", "hello"]


def test_keys_belong_to_their_callers(floor, send):
    tester = floor.hire("tester", "WORKER", with_token=True)[1]
    assert [send().call.replayed, send(token=tester).call.replayed] == [False, False]
    assert floor.traces() == ["hello", "hello"]


def test_as_whom_the_operator_acts_counts_not_that_it_is_the_operator(floor):
    floor.hire("builder", "WORKER", with_token=False)
    floor.ask("note", HELLO, key="k-1", claim="builder")
    assert floor.ask("note", HELLO, key="k-1").call.replayed is False
    assert floor.ask("note", HELLO, key="k-1", claim="builder").call.replayed is True


@pytest.mark.parametrize("error", [wrong_state(), RuntimeError("no")])
def test_a_call_that_had_no_effect_leaves_its_key_free(floor, send, error):
    floor.tools.failures = [error]
    assert send().error is not None
    again = send()
    assert (again.error, again.call.replayed, floor.traces()) == (None, False, ["hello"])


def test_attempts_of_one_call_are_one_call(floor, send):
    floor.tools.failures = [busy(), busy()]
    assert send().call.replayed is False
    assert floor.traces() == ["hello"]


def test_two_at_once_run_once_and_get_the_same_answer(floor, send):
    first, second, third = together(send, send, send)
    assert first.body == second.body == third.body
    assert sorted(answer.call.replayed for answer in (first, second, third)) == [False, True, True]
    assert floor.traces() == ["hello"]


def test_who_asks_again_while_the_first_still_runs_waits_for_it(floor, send):
    running, go = threading.Event(), threading.Event()

    def hold(text):
        running.set()
        go.wait(PATIENCE)

    floor.tools.inside = hold
    answers: list = []
    threads = [threading.Thread(target=lambda: answers.append(send())) for _ in range(2)]
    threads[0].start()
    assert running.wait(PATIENCE)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert answers[0].body == answers[1].body
    assert floor.traces() == ["hello"]


def test_who_asks_again_for_a_call_that_waits_waits_with_it(floor, send, token):
    answers: list = []

    def ask():
        answers.append(send("await", {"text": "the mail came"}))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(floor.tools.seen) >= 2)
    assert answers == []
    floor.call("bench", "note", {"text": "the mail came"})
    for thread in threads:
        thread.join(PATIENCE)
    assert [answer.body for answer in answers] == [{"came": "the mail came"}] * 2
    assert send("await", {"text": "the mail came"}).call.replayed is True


def test_an_answer_is_kept_for_a_day(floor, send):
    chore = next(chore for chore in chores([]) if chore.name == "kept answers")
    send()
    floor.pass_time(ANSWERS_KEPT - 60_000_000)
    floor.floor.administer(chore.do)
    assert send().call.replayed is True
    floor.pass_time(120_000_000)
    floor.floor.administer(chore.do)
    assert send().call.replayed is False


def test_another_replica_knows_the_answer(opened, send):
    first = send()
    token = opened().issue_token(agent="builder")[1]
    again = opened().ask("note", HELLO, key="k-1", token=token)
    assert (again.body, again.call.replayed) == (first.body, True)


def test_without_a_key_every_call_is_its_own(floor, send):
    send(key=None), send(key=None)
    assert floor.traces() == ["hello", "hello"]
