from __future__ import annotations

import threading

from tests.toolsets.factory.team import Team


def ask_operator(team, **input):
    words = {"subject": "Which?", "body": "A or B", "options": ["A", "B"], "timeoutSeconds": 0}
    return team.call("w1", "mcp__mail__ask", **words | input)


def test_question_returns_a_ticket_to_wait_on(team_on_each_engine):
    team = team_on_each_engine
    asked = ask_operator(team)
    assert (asked["state"], asked["answer"]) == ("OPEN", None)
    team.call(None, "inbox_answer", mailId=asked["ticket"], answer="B")
    answered = team.call("w1", "mcp__mail__ask", ticket=asked["ticket"])
    assert (answered["state"], answered["answer"]) == ("ANSWERED", "B")


def test_question_without_a_subject_is_named_after_its_body(team):
    team.call("w1", "mcp__mail__ask", body="Which one?\n" + "Long " * 100, timeoutSeconds=0)
    (mail,) = team.call(None, "inbox_list")["mails"]
    assert mail["subject"].startswith("Which one? Long Long")
    assert (len(mail["subject"]), mail["subject"][-1]) == (200, "…")
    assert team.expect_error("w1", "mcp__mail__ask", subject="Which?")[1] == (
        "`body` is required, or the `ticket` of an earlier question"
    )


def test_answer_is_in_the_inbox_until_it_is_read(team):
    ticket = ask_operator(team)["ticket"]
    team.call(None, "inbox_answer", mailId=ticket, answer="A")
    (mail,) = team.list_inbox("w1")
    assert (mail["fromAgentId"], mail["body"], mail["inReplyTo"]) == ("human", "A", ticket)
    team.call("w1", "mcp__mail__ask", ticket=ticket)
    assert team.list_inbox("w1") == []


def test_answer_is_an_option_or_in_other_words_and_accepted_once(team):
    for answer in ("A", "Neither, wait"):
        ticket = ask_operator(team)["ticket"]
        assert team.expect_error(None, "inbox_answer", mailId=ticket, answer="")[0] == "INVALID_INPUT"
        assert team.call(None, "inbox_answer", mailId=ticket, answer=answer)["answer"] == answer
        for second in ("B", answer):
            assert team.expect_error(None, "inbox_answer", mailId=ticket, answer=second)[0] == "INVALID_AGENT_STATE"
        assert team.call("w1", "mcp__mail__ask", ticket=ticket)["answer"] == answer
    free = ask_operator(team, options=[])["ticket"]
    assert team.call(None, "inbox_answer", mailId=free, answer="Anything")["answer"] == "Anything"


def test_question_expires_at_its_deadline(team):
    ticket = ask_operator(team, deadlineMinutes=1)["ticket"]
    team.pass_time(61)
    assert team.call("w1", "mcp__mail__ask", ticket=ticket)["state"] == "EXPIRED"


def test_only_the_agent_that_asked_can_wait_on_a_ticket(team):
    ticket = ask_operator(team)["ticket"]
    assert team.expect_error("w2", "mcp__mail__ask", ticket=ticket)[0] == "PERMISSION_DENIED"
    assert team.expect_error("w1", "mcp__mail__ask", ticket="mail-99")[0] == "RESOURCE_NOT_FOUND"


def test_ticket_excludes_other_arguments_and_question_needs_text(team):
    ticket = ask_operator(team)["ticket"]
    assert team.expect_error("w1", "mcp__mail__ask", ticket=ticket, body="b")[0] == "INVALID_INPUT"
    assert team.expect_error("w1", "mcp__mail__ask", subject="s")[0] == "INVALID_INPUT"
    assert team.expect_error("w1", "mcp__mail__ask", subject="s", body="b", options=["A", "A"])[0] == "INVALID_INPUT"


def test_waiting_agent_gets_the_answer_when_it_arrives(tmp_path):
    with Team(tmp_path, running=True) as team:
        answers: list[object] = []
        waiting = threading.Thread(target=lambda: answers.append(ask_operator(team, timeoutSeconds=55)))
        waiting.start()
        while not (mails := team.call(None, "inbox_list")["mails"]):
            waiting.join(0.01)
        assert team.call("w1", "mcp__agent__get_status")["state"] == "WAITING"
        team.call(None, "inbox_answer", mailId=mails[0]["id"], answer="A")
        waiting.join(60)
        assert answers[0]["answer"] == "A"  # type: ignore[index]
        assert team.call("w1", "mcp__agent__get_status")["state"] == "IDLE"
