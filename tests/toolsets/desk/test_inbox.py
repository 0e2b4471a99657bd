"""The inbox of the operator and the users."""

from __future__ import annotations

import pytest

from shopfloor.domain.mail import HUMAN, agent_participant
from shopfloor.domain.principals import OPERATOR
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import mail, run_requests, runs
from tests.rows_read import grew
from tests.toolsets.desk.conftest import Desk, count_rows, number_series_sql
from tests.workbench import wait_until


def _send_mail(desk: Desk, subject: str, who: str = "builder") -> str:
    return str(
        desk.call_as_agent(who, "mcp__mail__send", toHuman=True, subject=subject, body=f"About {subject}")["mailId"]
    )


def test_mail_is_pending_until_it_is_handled(desk: Desk) -> None:
    first, second = _send_mail(desk, "First"), _send_mail(desk, "Second")
    waiting = desk("inbox_list")
    assert [mail["id"] for mail in waiting["mails"]] == [second, first]
    assert waiting["unreadCount"] == 2
    assert desk("inbox_show", mailId=first)["thread"][0]["body"] == "About First"
    assert desk("inbox_list")["unreadCount"] == 2
    desk("inbox_ack", mailId=first)
    assert [mail["id"] for mail in desk("inbox_list")["mails"]] == [second]
    assert len(desk("inbox_list", includeDone=True)["mails"]) == 2


def test_open_questions_are_on_the_first_page_however_old_they_are(desk: Desk) -> None:
    asked = [
        desk.call_as_agent("builder", "mcp__mail__ask", body=f"Question {n}?", timeoutSeconds=0)["ticket"]
        for n in range(2)
    ]
    sent = [_send_mail(desk, f"News {n}") for n in range(5)]
    first = desk("inbox_list", limit=3)
    assert [mail["id"] for mail in first["mails"]] == [*asked[::-1], *sent[:1:-1]]
    second = desk("inbox_list", limit=3, cursor=first["nextCursor"])
    assert [mail["id"] for mail in second["mails"]] == sent[1::-1]
    third = desk("inbox_list", limit=3, cursor=second["nextCursor"])
    assert third["mails"] == []
    desk("inbox_answer", mailId=asked[0], answer="yes")
    assert [mail["id"] for mail in desk("inbox_list", limit=1)["mails"]] == [asked[1], sent[-1]]
    in_order = [mail["id"] for mail in desk("inbox_list", includeDone=True)["mails"]]
    assert in_order == [*sent[::-1], *asked[::-1]]


def test_an_option_in_other_case_is_answered_in_its_spelling(desk: Desk) -> None:
    ask = {"body": "Keep or trim?", "options": ["Keep", "Trim"], "timeoutSeconds": 0}
    tickets = [desk.call_as_agent("builder", "mcp__mail__ask", **ask)["ticket"] for _ in range(2)]
    answers = [
        desk("inbox_answer", mailId=ticket, answer=text)
        for ticket, text in zip(tickets, (" keep", "Kepp"), strict=True)
    ]
    assert [(given["answer"], given["options"]) for given in answers] == [
        ("Keep", ["Keep", "Trim"]),
        ("Kepp", ["Keep", "Trim"]),
    ]
    assert desk.call_as_agent("builder", "mcp__mail__ask", ticket=tickets[0])["answer"] == "Keep"


def test_reading_a_mail_does_not_take_it_out_of_the_inbox(desk: Desk) -> None:
    number = _send_mail(desk, "Alarm")
    assert desk("inbox_read", mailId=number)["readAt"] is not None
    assert [mail["id"] for mail in desk("inbox_list")["mails"]] == [number]
    assert desk("inbox_count")["waiting"] == 1


def test_an_acknowledged_mail_is_put_back(desk: Desk) -> None:
    number = _send_mail(desk, "Too early")
    assert desk("inbox_reopen", mailId=number)["acknowledgedAt"] is None  # it was not acknowledged
    desk("inbox_ack", mailId=number)
    assert desk("inbox_list")["mails"] == []
    assert desk("inbox_reopen", mailId=number)["acknowledgedAt"] is None
    assert [mail["id"] for mail in desk("inbox_list")["mails"]] == [number]
    assert desk.expect_error("inbox_reopen", mailId="mail-99") == "Mail mail-99 does not exist"


def test_answered_requests_are_listed_with_answer_and_author(desk: Desk) -> None:
    def ask(uow: UnitOfWork) -> None:
        runs.create_run(uow, "night", spec="x", project=".", options="{}")
        for question in ("May the agent execute: make?", "Stuck"):
            run_requests.ask_person(uow, "night", "permission", question, ("allow", "deny"))

    desk.shopfloor.engine.database.write(ask, OPERATOR)
    desk("inbox_decide", request=1, answer="deny")
    assert desk("inbox_list")["answered"] == []
    seen = desk("inbox_list", includeDone=True)
    assert [(each["request"], each["answer"], each["answeredBy"]) for each in seen["answered"]] == [
        (1, "deny", "operator")
    ]
    assert [each["request"] for each in seen["requests"]] == [2]
    shown = desk("inbox_request", request=1)
    assert (shown["answer"], shown["context"]["run"]["run"]) == ("deny", "night")


def test_a_mail_to_a_role_reaches_all_its_agents(desk: Desk) -> None:
    desk("inbox_write", agentId="role:WORKER", subject="All hands", body="Now")
    assert desk.call_as_agent("builder", "mcp__mail__list_inbox")["mails"][0]["subject"] == "All hands"
    assert desk.call_as_agent("lead", "mcp__mail__list_inbox")["mails"] == []


def test_mail_is_forwarded_with_a_note(desk: Desk) -> None:
    number = _send_mail(desk, "Who knows this?")
    desk("inbox_delegate", mailId=number, agentId="lead", note="Please look")
    got = desk.call_as_agent("lead", "mcp__mail__list_inbox")["mails"][0]
    assert got["subject"] == "Fwd: Who knows this?"
    assert "Please look" in got["body"]
    assert "About Who knows this?" in got["body"]
    assert desk("inbox_list")["mails"] == []


def test_forwarded_question_stays_open(desk: Desk) -> None:
    ask_for_permission = desk.call_as_agent(
        "builder", "mcp__mail__ask", subject="Which?", body="Red or blue", options=["red", "blue"], timeoutSeconds=0
    )
    number = ask_for_permission["ticket"]
    desk("inbox_delegate", mailId=number, agentId="lead")
    assert desk("inbox_list")["mails"][0]["question"]["state"] == "OPEN"
    desk("inbox_answer", mailId=number, answer="blue")
    assert desk("inbox_list")["mails"] == []


def test_muted_thread_is_hidden_and_kept(desk: Desk) -> None:
    number = _send_mail(desk, "Noise")
    desk("inbox_mute", mailId=number)
    waiting = desk("inbox_list")
    assert (waiting["mails"], waiting["hidden"]) == ([], 1)
    assert [mail["muted"] for mail in desk("inbox_list", includeDone=True)["mails"]] == [True]
    desk("inbox_unmute", what=waiting["muted"][0]["what"])
    assert len(desk("inbox_list")["mails"]) == 1


def test_all_mail_of_a_muted_sender_is_hidden(desk: Desk) -> None:
    number = _send_mail(desk, "One")
    desk("inbox_mute", mailId=number, sender=True)
    _send_mail(desk, "Two")
    kept = _send_mail(desk, "Three", "tester")
    assert [mail["id"] for mail in desk("inbox_list")["mails"]] == [kept]


def test_alert_has_its_count_and_its_log_reference(desk: Desk) -> None:
    desk.shopfloor.tools.failures += [RuntimeError("a bug"), RuntimeError("a bug")]
    for _ in range(2):
        desk.shopfloor.answer("bench", "note", {"text": "x"})
    alert = wait_until(lambda: [mail for mail in desk("inbox_list")["mails"] if "escalation" in mail])[0]
    assert alert["escalation"]["count"] == 2
    assert alert["escalation"]["code"] == "INTERNAL_ERROR"
    assert desk("log_call", reference=alert["escalation"]["reference"])["tool"] == "note"


def test_questions_of_a_run_are_answered_in_the_inbox(desk: Desk) -> None:
    def ask_for_permission(uow: UnitOfWork) -> int:
        runs.create_run(uow, "night", spec="Build it", project=".", options="{}")
        return run_requests.ask_person(uow, "night", "permission", "May I run make?", ("allow once", "deny")).number

    number = desk.shopfloor.engine.database.write(ask_for_permission, OPERATOR)
    assert desk("inbox_list")["requests"][0]["question"] == "May I run make?"
    assert desk.expect_error("inbox_decide", request=number, answer="perhaps") == "'perhaps' is not an answer to this"
    assert desk("inbox_decide", request=number, answer="deny")["answer"] == "deny"
    assert desk("inbox_list")["requests"] == []


def test_user_writes_to_an_agent(desk: Desk) -> None:
    desk("inbox_write", agentId="builder", subject="Stop", body="Wait for me")
    assert desk.call_as_agent("builder", "mcp__mail__list_inbox")["mails"][0]["subject"] == "Stop"


def test_muted_mail_does_not_count_as_pending(desk: Desk) -> None:
    number = _send_mail(desk, "Noise")
    _send_mail(desk, "News", "tester")
    assert desk("inbox_count") == {"waiting": 2, "moreWaiting": False}
    desk("inbox_mute", mailId=number)
    assert desk("inbox_count")["waiting"] == 1
    desk("inbox_unmute", what="thread:1")
    desk("inbox_mute", mailId=number, sender=True)
    assert desk("inbox_count")["waiting"] == 1


@pytest.mark.parametrize("many", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_large_inbox_reads_as_many_rows_as_one_of_a_thousand_mails(desk: Desk, many: int) -> None:
    def insert_mails(many: int) -> None:
        desk.shopfloor.execute(
            "INSERT INTO mail (workspace, sender, sender_type, subject, body, importance, created_at)"
            f" SELECT 1, 'agent:builder', 'WORKER', 'Mail ' || i, 'Words', 'normal', i FROM ({number_series_sql(desk)}) AS numbers",
            many=many,
        )
        desk.shopfloor.execute(
            "INSERT INTO receipt (workspace, recipient, mail, wanted) SELECT 1, 'human', id, 0 FROM mail"
            " WHERE id NOT IN (SELECT mail FROM receipt)"
        )
        if desk.engine == "postgres":
            desk.shopfloor.execute("ANALYZE mail")
            desk.shopfloor.execute("ANALYZE receipt")

    calls: list[tuple[str, dict[str, object]]] = [
        ("inbox_list", {}), ("inbox_list", {"includeDone": True}), ("inbox_count", {}), ("floor_overview", {}),
    ]  # fmt: skip
    insert_mails(1000)
    before = [count_rows(desk, tool, **given) for tool, given in calls]
    insert_mails(many)
    after = [count_rows(desk, tool, **given) for tool, given in calls]
    for call, short, long in zip(calls, before, after, strict=True):
        assert not grew(short, long), (call, short, long)
    assert desk("inbox_count") == {"waiting": 500, "moreWaiting": True}


def test_a_mail_says_who_reads_a_reply_to_it(desk: Desk) -> None:
    def send(uow: UnitOfWork) -> None:
        for about in (None, agent_participant("builder")):
            mail.send_system_mail(uow, [HUMAN], "Crew shop: completed", "8 tasks", about=about)

    desk.shopfloor.write(send)
    about_builder, from_server = desk("inbox_list")["mails"]
    assert (about_builder["from"], about_builder["replyTo"]) == ("shopfloor", "builder")
    assert (from_server["from"], from_server["replyTo"]) == ("shopfloor", None)
