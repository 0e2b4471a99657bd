from __future__ import annotations

import threading

from tests.factory.team import Team


def ask(team, **input):
    words = {"subject": "Which?", "body": "A or B", "options": ["A", "B"], "timeoutSeconds": 0}
    return team.call("w1", "mcp__mail__ask", **words | input)


def test_a_question_gives_a_ticket_to_wait_on_later(team_anywhere):
    team = team_anywhere
    asked = ask(team)
    assert (asked["state"], asked["answer"]) == ("OPEN", None)
    team.call(None, "inbox_answer", mailId=asked["ticket"], answer="B")
    answered = team.call("w1", "mcp__mail__ask", ticket=asked["ticket"])
    assert (answered["state"], answered["answer"]) == ("ANSWERED", "B")


def test_the_answer_is_in_the_inbox_too_until_it_was_seen(team):
    ticket = ask(team)["ticket"]
    team.call(None, "inbox_answer", mailId=ticket, answer="A")
    (mail,) = team.inbox("w1")
    assert (mail["fromAgentId"], mail["body"], mail["inReplyTo"]) == ("human", "A", ticket)
    team.call("w1", "mcp__mail__ask", ticket=ticket)
    assert team.inbox("w1") == []


def test_an_answer_is_one_of_the_options_and_given_once(team):
    ticket = ask(team)["ticket"]
    assert team.refused(None, "inbox_answer", mailId=ticket, answer="C")[0] == "INVALID_INPUT"
    team.call(None, "inbox_answer", mailId=ticket, answer="A")
    assert team.refused(None, "inbox_answer", mailId=ticket, answer="B")[0] == "INVALID_AGENT_STATE"
    free = ask(team, options=[])["ticket"]
    assert team.call(None, "inbox_answer", mailId=free, answer="Whatever")["answer"] == "Whatever"


def test_a_question_lapses_at_its_deadline(team):
    ticket = ask(team, deadlineMinutes=1)["ticket"]
    team.skip(61)
    assert team.call("w1", "mcp__mail__ask", ticket=ticket)["state"] == "EXPIRED"


def test_nobody_else_can_wait_on_a_ticket(team):
    ticket = ask(team)["ticket"]
    assert team.refused("w2", "mcp__mail__ask", ticket=ticket)[0] == "PERMISSION_DENIED"
    assert team.refused("w1", "mcp__mail__ask", ticket="mail-99")[0] == "RESOURCE_NOT_FOUND"


def test_a_ticket_stands_alone_and_a_question_needs_words(team):
    ticket = ask(team)["ticket"]
    assert team.refused("w1", "mcp__mail__ask", ticket=ticket, body="b")[0] == "INVALID_INPUT"
    assert team.refused("w1", "mcp__mail__ask", subject="s")[0] == "INVALID_INPUT"
    assert team.refused("w1", "mcp__mail__ask", subject="s", body="b", options=["A", "A"])[0] == "INVALID_INPUT"


def test_who_waits_gets_the_answer_when_it_comes(tmp_path):
    with Team(tmp_path, running=True) as team:
        answers: list[object] = []
        waiting = threading.Thread(target=lambda: answers.append(ask(team, timeoutSeconds=55)))
        waiting.start()
        while not (mails := team.call(None, "inbox_list")["mails"]):
            waiting.join(0.01)
        assert team.call("w1", "mcp__agent__get_status")["state"] == "WAITING"
        team.call(None, "inbox_answer", mailId=mails[0]["id"], answer="A")
        waiting.join(60)
        assert answers[0]["answer"] == "A"  # type: ignore[index]
        assert team.call("w1", "mcp__agent__get_status")["state"] == "IDLE"
