"""The human's side: the desk's tools, and the command line over them."""

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
from tests.factory.processes import CHECKOUT
from tests.factory.team import Team


@pytest.fixture
def shopfloor(tmp_path):
    """Run `shopfloor …` on the floor of this test."""
    return lambda *arguments: CliRunner().invoke(app, [*arguments, "--project", str(tmp_path)])


def as_json(done: Result) -> Any:
    assert done.exit_code == 0, done.exception
    return json.loads(done.stdout)


def test_the_inbox_lists_what_waits_and_deals_with_it(tmp_path, shopfloor):
    assert shopfloor("inbox").stdout == "Nothing waits for you.\n"
    with Team(tmp_path) as team:
        team.call("w1", "mcp__mail__send", toHuman=True, subject="Look \x1b[31m", body="Line\nTwo")
        team.call("w1", "mcp__mail__ask", subject="Which?", body="?", options=["A", "B"], timeoutSeconds=0)
        team.call("w2", "mcp__mail__send", toHuman=True, subject="Ack me", body="b", ackWithinMinutes=5)
        listed = as_json(shopfloor("inbox", "--json"))
        assert [mail["id"] for mail in listed["mails"]] == ["mail-3", "mail-2", "mail-1"]
        table = shopfloor("inbox").stdout
        assert [line.split()[2] for line in table.splitlines()[1:]] == ["acknowledgement", "answer", "reading"]
        assert "\x1b" not in table
        assert "Line\nTwo" in shopfloor("inbox", "read", "mail-1").stdout
        as_json(shopfloor("inbox", "reply", "mail-1", "Thanks", "--json"))
        assert as_json(shopfloor("inbox", "answer", "mail-2", "A", "--json"))["answer"] == "A"
        as_json(shopfloor("inbox", "ack", "mail-3", "--json"))
        assert shopfloor("inbox").stdout == "Nothing waits for you.\n"
        assert len(as_json(shopfloor("inbox", "--all", "--json"))["mails"]) == 3
        assert {mail["body"] for mail in team.inbox("w1")} == {"Thanks", "A"}


def test_a_mistake_is_one_line_and_exit_code_1(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "shopfloor", "inbox", "read", "mail-9", "--project", str(tmp_path)],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT / "src")},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "shopfloor: Mail mail-9 does not exist\n")


def test_what_wants_something_waits_until_it_is_done_even_when_read(team):
    team.call("w1", "mcp__mail__ask", subject="Which?", body="?", timeoutSeconds=0)
    team.call("w1", "mcp__mail__send", toHuman=True, subject="News", body="b")
    for id in ("mail-1", "mail-2"):
        team.call(None, "inbox_read", mailId=id)
    assert [mail["id"] for mail in team.call(None, "inbox_list")["mails"]] == ["mail-1"]


def test_a_reply_to_a_question_is_its_answer_and_an_acknowledgement_is_not(team):
    ticket = team.call("w1", "mcp__mail__ask", subject="Which?", body="?", options=["A"], timeoutSeconds=0)["ticket"]
    assert team.refused(None, "inbox_ack", mailId=ticket)[0] == "INVALID_INPUT"
    assert team.refused(None, "inbox_reply", mailId=ticket, body="B")[0] == "INVALID_INPUT"
    team.call(None, "inbox_reply", mailId=ticket, body="A")
    assert team.call("w1", "mcp__mail__ask", ticket=ticket)["answer"] == "A"


def test_the_person_cannot_read_the_agents_mail_here(team):
    team.call("w1", "mcp__mail__send", toAgentId="sup", subject="s", body="b")
    assert team.refused(None, "inbox_read", mailId="mail-1")[0] == "PERMISSION_DENIED"


def test_an_alarm_is_answered_to_the_agent_it_is_about(team):
    team.call("w1", "mcp__task__claim", taskId=team.task())
    team.skip(500)
    team.do(recovery.return_tasks_of_silent)
    (alarm,) = team.call(None, "inbox_list")["mails"]
    team.call(None, "inbox_reply", mailId=alarm["id"], body="Where are you?")
    assert team.inbox("w1")[0]["fromAgentType"] == "HUMAN"


def test_the_desk_is_for_the_operator_and_its_calls_are_in_the_log(team):
    answer = team.shop.answer("desk", "inbox_list", {}, "sup")
    assert answer.body["code"] == "PERMISSION_DENIED"
    team.call(None, "inbox_list")
    team.floor.works.store.flush()
    log = team.call("sup", "mcp__system__list_decisions", toolName="inbox_list")["decisions"]
    assert {entry["agentId"] for entry in log} == {"sup", "operator:operator"}
