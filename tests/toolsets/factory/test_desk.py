"""The inbox of the operator: tools of the desk and their commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.usecases import recovery
from tests.toolsets.factory.processes import CHECKOUT
from tests.toolsets.factory.team import Team


@pytest.fixture
def shopfloor(tmp_path):
    """Run `shopfloor …` on the server of this test."""
    return lambda *arguments: CliRunner().invoke(app, [*arguments, "--project", str(tmp_path)])


def as_json(done: Result) -> Any:
    assert done.exit_code == 0, done.exception
    return json.loads(done.stdout)


def test_inbox_lists_pending_mail_and_handles_it(tmp_path, shopfloor):
    assert shopfloor("inbox").stdout == "Nothing is waiting for you.\n"
    with Team(tmp_path) as team:
        team.call("w1", "mcp__mail__send", toHuman=True, subject="Look \x1b[31m", body="Line\nTwo")
        team.call("w1", "mcp__mail__ask", subject="Which?", body="?", options=["A", "B"], timeoutSeconds=0)
        team.call("w2", "mcp__mail__send", toHuman=True, subject="Ack me", body="b", ackWithinMinutes=5)
        listed = as_json(shopfloor("inbox", "--json"))
        assert [mail["id"] for mail in listed["mails"]] == ["mail-2", "mail-3", "mail-1"]
        table, _, commands = shopfloor("inbox").stdout.partition("\n\n")
        assert [line.split()[2] for line in table.splitlines()[1:]] == ["answer", "acknowledgement", "reading"]
        assert "\x1b" not in table
        assert (
            commands
            == "Read:   shopfloor inbox read mail-2\nAnswer: shopfloor inbox answer mail-2 A | B\nDone:   shopfloor inbox ack mail-3\n"
        )
        assert "Line\nTwo" in shopfloor("inbox", "read", "mail-1").stdout
        as_json(shopfloor("inbox", "reply", "mail-1", "Thanks", "--json"))
        assert as_json(shopfloor("inbox", "answer", "mail-2", "A", "--json"))["answer"] == "A"
        as_json(shopfloor("inbox", "ack", "mail-3", "--json"))
        assert shopfloor("inbox").stdout == "Nothing is waiting for you.\n"
        assert len(as_json(shopfloor("inbox", "--all", "--json"))["mails"]) == 3
        assert {mail["body"] for mail in team.list_inbox("w1")} == {"Thanks", "A"}


def test_mistake_prints_what_is_wrong_and_the_next_step_and_exits_with_code_1(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "shopfloor", "inbox", "read", "mail-9", "--project", str(tmp_path)],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT / "src")},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "shopfloor: Mail mail-9 does not exist\n  List your mail: shopfloor mail list\n",
    )


def test_mail_that_requires_action_stays_pending_after_it_is_read(team):
    team.call("w1", "mcp__mail__ask", subject="Which?", body="?", timeoutSeconds=0)
    team.call("w1", "mcp__mail__send", toHuman=True, subject="News", body="b")
    for id in ("mail-1", "mail-2"):
        team.call(None, "inbox_read", mailId=id)
    assert [mail["id"] for mail in team.call(None, "inbox_list")["mails"]] == ["mail-1", "mail-2"]
    team.call(None, "inbox_ack", mailId="mail-2")
    assert [mail["id"] for mail in team.call(None, "inbox_list")["mails"]] == ["mail-1"]
    team.call(None, "inbox_answer", mailId="mail-1", answer="This")
    assert team.call(None, "inbox_list")["mails"] == []


def test_reply_answers_a_question_and_acknowledgement_does_not(team):
    ticket = team.call("w1", "mcp__mail__ask", subject="Which?", body="?", options=["A"], timeoutSeconds=0)["ticket"]
    assert team.expect_error(None, "inbox_ack", mailId=ticket)[0] == "INVALID_INPUT"
    assert team.call("w1", "mcp__mail__ask", ticket=ticket, timeoutSeconds=0)["state"] == "OPEN"
    team.call(None, "inbox_reply", mailId=ticket, body="A")
    assert team.call("w1", "mcp__mail__ask", ticket=ticket)["answer"] == "A"
    other = team.call("w1", "mcp__mail__ask", subject="Which?", body="?", options=["A"], timeoutSeconds=0)["ticket"]
    team.call(None, "inbox_reply", mailId=other, body="Neither")
    answered = team.call("w1", "mcp__mail__ask", ticket=other)
    assert (answered["state"], answered["answer"]) == ("ANSWERED", "Neither")


def test_operator_cannot_read_mail_between_agents_in_the_inbox(team):
    team.call("w1", "mcp__mail__send", toAgentId="sup", subject="s", body="b")
    assert team.expect_error(None, "inbox_read", mailId="mail-1")[0] == "PERMISSION_DENIED"


def test_reply_to_an_alert_goes_to_the_agent_it_is_about(team):
    team.call("w1", "mcp__task__claim", taskId=team.create_task())
    team.pass_time(500)
    team.write(recovery.return_tasks_of_silent_agents)
    (alarm,) = team.call(None, "inbox_list")["mails"]
    team.call(None, "inbox_reply", mailId=alarm["id"], body="Where are you?")
    assert team.list_inbox("w1")[0]["fromAgentType"] == "HUMAN"


def test_the_desk_is_for_the_operator_and_its_calls_are_in_the_log(team):
    answer = team.shop.answer("desk", "inbox_list", {}, "sup")
    assert answer.body["code"] == "PERMISSION_DENIED"
    team.call(None, "inbox_list")
    team.engine.database.store.flush()
    log = team.call("sup", "mcp__system__list_decisions", toolName="inbox_list")["decisions"]
    assert {entry["agentId"] for entry in log} == {"sup", "operator:operator"}
