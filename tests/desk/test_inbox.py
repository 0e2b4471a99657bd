"""The inbox of the people in charge."""

from __future__ import annotations

import pytest

from shopfloor.domain.actors import OPERATOR
from shopfloor.repositories.work import Work
from shopfloor.usecases import loops
from tests.desk.conftest import Desk, cost, series
from tests.workbench import until


def _mail(desk: Desk, subject: str, who: str = "builder") -> str:
    return str(desk.agent(who, "mcp__mail__send", toHuman=True, subject=subject, body=f"About {subject}")["mailId"])


def test_mail_waits_until_it_is_seen_to(desk: Desk) -> None:
    first, second = _mail(desk, "First"), _mail(desk, "Second")
    waiting = desk("inbox_waiting")
    assert [mail["id"] for mail in waiting["mails"]] == [second, first]
    assert waiting["unreadCount"] == 2
    assert desk("inbox_show", mailId=first)["thread"][0]["body"] == "About First"
    assert desk("inbox_waiting")["unreadCount"] == 2
    desk("inbox_ack", mailId=first)
    assert [mail["id"] for mail in desk("inbox_waiting")["mails"]] == [second]
    assert len(desk("inbox_waiting", includeDone=True)["mails"]) == 2


def test_a_mail_is_passed_on_with_a_note(desk: Desk) -> None:
    number = _mail(desk, "Who knows this?")
    desk("inbox_delegate", mailId=number, agentId="lead", note="Please look")
    got = desk.agent("lead", "mcp__mail__list_inbox")["mails"][0]
    assert got["subject"] == "Fwd: Who knows this?"
    assert "Please look" in got["body"]
    assert "About Who knows this?" in got["body"]
    assert desk("inbox_waiting")["mails"] == []


def test_a_question_passed_on_stays_open(desk: Desk) -> None:
    asked = desk.agent(
        "builder", "mcp__mail__ask", subject="Which?", body="Red or blue", options=["red", "blue"], timeoutSeconds=0
    )
    number = asked["ticket"]
    desk("inbox_delegate", mailId=number, agentId="lead")
    assert desk("inbox_waiting")["mails"][0]["question"]["state"] == "OPEN"
    assert desk.refusal("inbox_answer", mailId=number, answer="green") == "The answer must be one of: red, blue"
    desk("inbox_answer", mailId=number, answer="blue")
    assert desk("inbox_waiting")["mails"] == []


def test_a_muted_thread_is_out_of_sight_and_kept(desk: Desk) -> None:
    number = _mail(desk, "Noise")
    desk("inbox_mute", mailId=number)
    waiting = desk("inbox_waiting")
    assert (waiting["mails"], waiting["hidden"]) == ([], 1)
    assert [mail["muted"] for mail in desk("inbox_waiting", includeDone=True)["mails"]] == [True]
    desk("inbox_unmute", what=waiting["muted"][0]["what"])
    assert len(desk("inbox_waiting")["mails"]) == 1


def test_a_muted_sender_is_out_of_sight_altogether(desk: Desk) -> None:
    number = _mail(desk, "One")
    desk("inbox_mute", mailId=number, sender=True)
    _mail(desk, "Two")
    kept = _mail(desk, "Three", "tester")
    assert [mail["id"] for mail in desk("inbox_waiting")["mails"]] == [kept]


def test_an_alarm_says_how_often_and_where_it_is_in_the_log(desk: Desk) -> None:
    desk.floor.tools.failures += [RuntimeError("a bug"), RuntimeError("a bug")]
    for _ in range(2):
        desk.floor.answer("bench", "note", {"text": "x"})
    alarm = until(lambda: [mail for mail in desk("inbox_waiting")["mails"] if "escalation" in mail])[0]
    assert alarm["escalation"]["count"] == 2
    assert alarm["escalation"]["code"] == "INTERNAL_ERROR"
    assert desk("log_call", reference=alarm["escalation"]["reference"])["tool"] == "note"


def test_what_a_run_asks_is_decided_here(desk: Desk) -> None:
    def asked(work: Work) -> int:
        loops.create(work, "night", spec="Build it", project=".", options="{}")
        return loops.ask_person(work, "night", "permission", "May I run make?", ("allow once", "deny")).number

    number = desk.floor.floor.works.write(asked, OPERATOR)
    assert desk("inbox_waiting")["requests"][0]["question"] == "May I run make?"
    assert desk.refusal("inbox_decide", request=number, answer="perhaps") == "'perhaps' is not an answer to this"
    assert desk("inbox_decide", request=number, answer="deny")["answer"] == "deny"
    assert desk("inbox_waiting")["requests"] == []


def test_a_person_writes_to_an_agent(desk: Desk) -> None:
    desk("inbox_write", agentId="builder", subject="Stop", body="Wait for me")
    assert desk.agent("builder", "mcp__mail__list_inbox")["mails"][0]["subject"] == "Stop"


def test_what_is_muted_does_not_count_as_waiting(desk: Desk) -> None:
    number = _mail(desk, "Noise")
    _mail(desk, "News", "tester")
    assert desk("inbox_count") == {"waiting": 2, "moreWaiting": False}
    desk("inbox_mute", mailId=number)
    assert desk("inbox_count")["waiting"] == 1
    desk("inbox_unmute", what="thread:1")
    desk("inbox_mute", mailId=number, sender=True)
    assert desk("inbox_count")["waiting"] == 1


@pytest.mark.parametrize("many", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_an_inbox_of_many_mails_opens_as_fast_as_one_of_a_thousand(desk: Desk, many: int) -> None:
    def fill(many: int) -> None:
        desk.floor.execute(
            "INSERT INTO mail (workspace, sender, sender_type, subject, body, importance, created_at)"
            f" SELECT 1, 'agent:builder', 'WORKER', 'Mail ' || i, 'Words', 'normal', i FROM ({series(desk)}) AS numbers",
            many=many,
        )
        desk.floor.execute(
            "INSERT INTO receipt (workspace, recipient, mail, wanted) SELECT 1, 'human', id, 0 FROM mail"
            " WHERE id NOT IN (SELECT mail FROM receipt)"
        )
        if desk.engine == "postgres":
            desk.floor.execute("ANALYZE mail")
            desk.floor.execute("ANALYZE receipt")

    looks: list[tuple[str, dict[str, object]]] = [
        ("inbox_waiting", {}), ("inbox_waiting", {"includeDone": True}), ("inbox_count", {}), ("floor_overview", {}),
    ]  # fmt: skip
    fill(1000)
    before = [cost(desk, tool, **given) for tool, given in looks]
    fill(many)
    after = [cost(desk, tool, **given) for tool, given in looks]
    for look, short, long in zip(looks, before, after, strict=True):
        assert long < 4 * short + 0.02, (look, short, long)
    assert desk("inbox_count") == {"waiting": 500, "moreWaiting": True}
