from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from shopfloor.domain.mail import HUMAN, agent_participant
from shopfloor.domain.principals import OPERATOR
from shopfloor.errors import AgentNotFound
from shopfloor.usecases import mail
from tests.operator_access import read_agent
from tests.toolsets.factory.team import Team


def send(team, caller="w1", **input):
    return team.call(caller, "mcp__mail__send", **{"subject": "Hello", "body": "There"} | input)["mailId"]


def read_receipt(team, name, id):
    party = HUMAN if name == "human" else agent_participant(name)
    return team.read(lambda uow: uow.mail.find_receipt(int(id.removeprefix("mail-")), party))


# Addresses


@pytest.mark.parametrize(
    "address",
    [
        {},
        {"toHuman": False},
        {"toAgentId": ""},
        {"toAgentId": "sup", "toHuman": True},
        {"toAgentId": "sup", "to": ["orc"]},
        {"toHuman": True, "to": ["orc"]},
        {"to": []},
        {"to": ["role:UNKNOWN"]},
        {"to": ["w1"] * 101},
    ],
)
def test_a_mail_needs_exactly_one_address(team, address):
    code, _ = team.expect_error("w1", "mcp__mail__send", subject="Hello", body="There", **address)
    assert code == "INVALID_INPUT"
    assert team.list_events("mail.sent") == []


def test_mail_without_a_recipient_names_the_missing_argument(team):
    assert team.expect_error("w1", "mcp__mail__send", subject="Hello", body="There") == (
        "INVALID_INPUT",
        "Must specify either toAgentId or toHuman: true",
    )


def test_mail_to_an_unknown_agent_is_rejected(team):
    assert team.expect_error("w1", "mcp__mail__send", toAgentId="ghost", subject="Hello", body="There") == (
        "AGENT_NOT_FOUND",
        "Agent 'ghost' does not exist.",
    )
    assert (
        team.expect_error("w1", "mcp__mail__send", to=["sup", "ghost"], subject="s", body="b")[0] == "AGENT_NOT_FOUND"
    )
    assert team.list_inbox("sup") == []


def test_mail_to_the_sender_itself_is_delivered(team):
    send(team, toAgentId="w1", toHuman=False)
    assert [(mail["fromAgentId"], mail["fromAgentType"]) for mail in team.list_inbox("w1")] == [("w1", "WORKER")]


@pytest.mark.parametrize("input", [{"subject": ""}, {"body": ""}, {"subject": "x" * 201}, {"body": "x" * 65537}])
def test_mail_subject_and_body_have_limits(team, input):
    words = {"subject": "Hello", "body": "There"} | input
    assert team.expect_error("w1", "mcp__mail__send", toAgentId="sup", **words)[0] == "INVALID_INPUT"


def test_limits_count_characters_and_the_largest_body_is_returned_complete(team):
    body = "\N{ROCKET}" * 65536
    id = send(team, toAgentId="sup", subject="\N{ROCKET}" * 200, body=body)
    (short,) = team.list_inbox("sup")
    assert (short["body"], short["bodyTruncated"]) == (body[:1000], True)
    whole = team.call("sup", "mcp__mail__read", mailId=id)
    assert whole["body"] == body
    assert "bodyTruncated" not in whole


def test_mail_is_sent_to_several_agents_a_role_or_everyone(team):
    assert team.call("sup", "mcp__mail__send", to=["w1", "w2", "w1"], subject="s", body="b")["recipients"] == 2
    assert team.call("w1", "mcp__mail__send", to="role:WORKER", subject="s", body="b")["recipients"] == 1
    assert team.call("w1", "mcp__mail__send", to="everyone", subject="s", body="b")["recipients"] == 4  # and local
    assert team.call("w1", "mcp__mail__send", to=["human", "sup"], subject="s", body="b")["recipients"] == 2
    assert len(team.list_inbox("w2")) == 3
    assert len(team.list_inbox("w1")) == 1


def test_a_retired_agent_gets_no_mail(team):
    team.shop.retire_agent("w2")
    assert team.expect_error("w1", "mcp__mail__send", toAgentId="w2", subject="s", body="b")[0] == "AGENT_NOT_FOUND"
    assert team.call("sup", "mcp__mail__send", to="role:WORKER", subject="s", body="b")["recipients"] == 1


# Events


def test_each_recipient_gets_an_event_with_exactly_the_promised_data(team):
    send(team, toAgentId="sup", subject="Need Help")
    send(team, toHuman=True, subject="Urgent")
    send(team, to=["sup", "orc"], subject="Both")
    assert team.list_events("mail.sent") == [
        {"mailId": "mail-1", "toAgentId": "sup", "isForHuman": False, "subject": "Need Help"},
        {"mailId": "mail-2", "toAgentId": None, "isForHuman": True, "subject": "Urgent"},
        {"mailId": "mail-3", "toAgentId": "sup", "isForHuman": False, "subject": "Both"},
        {"mailId": "mail-3", "toAgentId": "orc", "isForHuman": False, "subject": "Both"},
    ]


def test_the_event_is_logged_once_the_mail_is_durable(team, caplog):
    with caplog.at_level("INFO", logger="shopfloor.mail"):
        send(team, toAgentId="sup", subject="Need Help")
    (record,) = [record for record in caplog.records if record.name == "shopfloor.mail"]
    assert record.message == "mail.sent"
    assert (record.mailId, record.toAgentId, record.isForHuman) == ("mail-1", "sup", False)
    assert team.read(lambda uow: uow.outbox.count_backlog()) == (0, 0)


def test_mail_that_was_rolled_back_is_not_logged(team, caplog):
    def send_and_raise(uow):
        with suppress(AgentNotFound), uow.savepoint():
            mail.send_mail(uow, [agent_participant("sup")], "Never", "Never")
            raise AgentNotFound
        return uow.events

    with caplog.at_level("INFO", logger="shopfloor.mail"):
        assert team.shop.engine.database.write(send_and_raise, OPERATOR) == []
    assert [record for record in caplog.records if record.name == "shopfloor.mail"] == []


def test_sending_updates_the_senders_last_activity(team):
    before = read_agent(team.shop, "w1").last_active_at
    team.pass_time(1)
    send(team, toAgentId="sup")
    assert read_agent(team.shop, "w1").last_active_at >= before + 1_000_000


# Reading and replying


def test_first_read_marks_the_mail_as_read(team):
    id = send(team, toAgentId="sup")
    first = team.call("sup", "mcp__mail__read", mailId=id)
    team.pass_time(60)
    again = team.call("sup", "mcp__mail__read", mailId=id)
    assert first["isRead"] is True
    assert again["readAt"] == first["readAt"]
    assert team.call("sup", "mcp__mail__list_inbox")["unreadCount"] == 0
    assert team.call("sup", "mcp__mail__list_inbox", includeRead=True)["mails"][0]["isRead"] is True


@pytest.mark.parametrize("tool", ["read", "acknowledge"])
def test_mail_of_another_agent_is_denied_and_stays_unread(team, tool):
    id = send(team, toAgentId="sup", body="canary")
    for stranger in ("w2", "w1"):
        answer = team.answer(stranger, f"mcp__mail__{tool}", mailId=id)
        assert answer.body["error"]["code"] == "PERMISSION_DENIED"
        assert "canary" not in answer.text
    assert read_receipt(team, "sup", id).read_at is None


@pytest.mark.parametrize("id", ["mail-99", "mail-0", "mail-01", "task-1", "99", "", "mail-99999999999999999999"])
def test_a_mail_that_does_not_exist_is_not_found(team, id):
    assert team.expect_error("sup", "mcp__mail__read", mailId=id)[0] == "RESOURCE_NOT_FOUND"
    assert team.expect_error("sup", "mcp__mail__reply", originalMailId=id, body="b")[0] == "RESOURCE_NOT_FOUND"


def test_reply_keeps_a_single_re_prefix(team):
    first = send(team, toAgentId="sup", subject="Need Help")
    second = team.call("sup", "mcp__mail__reply", originalMailId=first, body="How?")["mailId"]
    third = team.call("w1", "mcp__mail__reply", originalMailId=second, body="So")["mailId"]
    (mail,) = team.list_inbox("sup")[:1]
    assert (mail["id"], mail["subject"]) == (third, "Re: Need Help")
    assert (mail["threadId"], mail["inReplyTo"]) == (first, second)


def test_subject_that_only_begins_like_a_reply_gets_the_prefix(team):
    first = send(team, toAgentId="sup", subject="Re:view of the plan")
    team.call("sup", "mcp__mail__reply", originalMailId=first, body="Fine")
    assert team.list_inbox("w1")[0]["subject"] == "Re: Re:view of the plan"


def test_only_a_recipient_can_reply(team):
    id = send(team, toAgentId="sup")
    for stranger in ("w1", "w2"):
        code, _ = team.expect_error(stranger, "mcp__mail__reply", originalMailId=id, body="b")
        assert code == "PERMISSION_DENIED"


def test_reply_to_the_operator_reaches_the_operator(team):
    asked = send(team, toHuman=True)
    answered = team.call(None, "inbox_reply", mailId=asked, body="Continue")["mailId"]
    (mail,) = team.list_inbox("w1")
    assert (mail["fromAgentId"], mail["fromAgentType"], mail["bodyIsUntrusted"]) == ("human", "HUMAN", False)
    back = team.call("w1", "mcp__mail__reply", originalMailId=answered, body="Thanks")["mailId"]
    assert [one["id"] for one in team.call(None, "inbox_list")["mails"]] == [back]


def test_agent_cannot_be_created_under_a_reserved_name(team):
    for name in ("human", "Human", "shopfloor", "everyone"):
        assert team.expect_error("sup", "mcp__supervisor__create_agent", agentId=name)[0] == "INVALID_INPUT"


def test_an_argument_cannot_name_the_sender(team):
    code, _ = team.expect_error("w1", "mcp__mail__send", toAgentId="sup", subject="s", body="b", fromAgentId="orc")
    assert code == "INVALID_INPUT"


# Delivery


def test_mail_is_stored_then_delivered_then_read_then_acknowledged(team_on_each_engine):
    team = team_on_each_engine
    id = send(team, toAgentId="sup")
    assert read_receipt(team, "sup", id).delivered_at is None
    team.call("sup", "mcp__agent__get_status")
    assert read_receipt(team, "sup", id).delivered_at is not None
    assert read_receipt(team, "sup", id).read_at is None
    team.call("sup", "mcp__mail__read", mailId=id)
    assert read_receipt(team, "sup", id).acted_at is None
    team.call("sup", "mcp__mail__reply", originalMailId=id, body="b")
    (sent,) = team.call("w1", "mcp__mail__list_inbox", sent=True)["mails"]
    (state,) = sent["recipients"]
    assert state["id"] == "sup"
    assert state["deliveredAt"] <= state["readAt"] <= state["actedAt"]


@pytest.mark.parametrize("tool", ["list_inbox", "wait"])
def test_listed_mail_is_marked_as_delivered(team, tool):
    id = send(team, toAgentId="sup")
    team.call("sup", f"mcp__mail__{tool}")
    assert read_receipt(team, "sup", id).delivered_at is not None
    assert read_receipt(team, "sup", id).read_at is None


def test_every_response_reports_unread_mail_also_an_error(team):
    assert team.answer("sup", "mcp__agent__get_status").record.notice is None
    first = send(team, toAgentId="sup")
    send(team, caller="w2", toAgentId="sup")
    assert (
        team.answer("sup", "mcp__agent__get_status").record.notice
        == "You have 2 unread mails; newest from w2: mcp__mail__list_inbox"
    )
    team.call("sup", "mcp__mail__read", mailId=first)
    rejected = team.answer("sup", "mcp__mail__read", mailId="mail-99").record
    assert rejected.notice == "You have 1 unread mail; newest from w2: mcp__mail__list_inbox"


def test_missing_acknowledgement_is_escalated_once(team):
    id = send(team, "sup", toAgentId="w1", ackWithinMinutes=5)
    team.pass_time(299)
    assert team.write(mail.escalate_overdue) == 0
    team.pass_time(2)
    assert team.write(mail.escalate_overdue) == 1
    assert team.write(mail.escalate_overdue) == 0
    (notice,) = team.list_inbox("sup")
    assert (notice["fromAgentType"], notice["subject"]) == ("SYSTEM", "Not acknowledged: Hello")
    assert id in notice["body"]


def test_an_acknowledged_mail_is_not_escalated(team):
    id = send(team, "sup", toAgentId="w1", ackWithinMinutes=5)
    assert team.list_inbox("w1")[0]["acknowledgeBefore"] > team.list_inbox("w1")[0]["createdAt"]
    team.call("w1", "mcp__mail__acknowledge", mailId=id)
    team.pass_time(3600)
    assert team.write(mail.escalate_overdue) == 0


# Lists


def test_inbox_pages_are_newest_first(team_on_each_engine):
    team = team_on_each_engine
    ids = [send(team, toAgentId="sup", subject=f"Number {number}") for number in range(120)]
    seen, cursor = [], None
    while True:
        page = team.call("sup", "mcp__mail__list_inbox", **({"cursor": cursor} if cursor else {}))
        assert page["count"] == len(page["mails"])
        assert page["unreadCount"] == 120
        seen += [mail["id"] for mail in page["mails"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
        assert page["count"] == 50
    assert seen == ids[::-1]


def test_page_of_large_mails_stays_below_the_size_limit_and_reports_it(team):
    for _ in range(200):
        send(team, toAgentId="sup", body="\N{ROCKET}" * 65536)
    whole = team.answer("sup", "mcp__mail__list_inbox", limit=200)
    assert whole.body["data"]["truncated"] is True
    assert len(whole.text.encode()) < 100_000
    usual = team.answer("sup", "mcp__mail__list_inbox")
    assert len(usual.text.encode()) < 20_000
    assert usual.body["data"]["nextCursor"]


@pytest.mark.parametrize("cursor", ["nonsense", "MTEy!", "", "\N{ROCKET}", "MWFiYw"])
def test_invalid_cursor_is_rejected(team, cursor):
    assert team.expect_error("sup", "mcp__mail__list_inbox", cursor=cursor)[0] == "INVALID_INPUT"


@pytest.mark.parametrize("limit", [0, 201, True, "5"])
def test_a_limit_is_a_number_from_1_to_200(team, limit):
    assert team.expect_error("sup", "mcp__mail__list_inbox", limit=limit)[0] == "INVALID_INPUT"


def test_list_marks_only_the_mail_it_returns_as_delivered(team):
    ids = [send(team, toHuman=True) for _ in range(3)]
    assert team.call(None, "inbox_list", limit=2)["count"] == 2
    delivered = [read_receipt(team, "human", id).delivered_at is not None for id in ids]
    assert delivered == [False, True, True]


def test_workspaces_share_no_mail(tmp_path, database):
    with Team(tmp_path, database=database) as here, Team(tmp_path, database=database, workspace="there") as there:
        id = send(here, toAgentId="sup")
        assert there.list_inbox("sup") == []
        assert there.expect_error("sup", "mcp__mail__read", mailId=id)[0] == "RESOURCE_NOT_FOUND"
        task, epic = here.create_task(), here.create_epic()
        assert there.expect_error("sup", "mcp__task__get", taskId=task)[0] == "RESOURCE_NOT_FOUND"
        assert there.expect_error("sup", "mcp__epic__get", epicId=epic)[0] == "RESOURCE_NOT_FOUND"
        assert there.call("w1", "mcp__task__claim")["task"] is None


# Again


def test_repeated_send_with_the_same_key_sends_one_mail(team_on_each_engine):
    team = team_on_each_engine
    answers = []
    for _ in range(2):
        request = team.shop._request(
            "factory", "mcp__mail__send", {"toAgentId": "sup", "subject": "s", "body": "b"}, "w1", "python"
        )
        answers.append(team.engine.call(replace(request, idempotency_key="only-once")))
    assert answers[0].body["data"] == answers[1].body["data"]
    assert [answer.record.replayed for answer in answers] == [False, True]
    assert len(team.list_events("mail.sent")) == 1
    assert team.call("sup", "mcp__mail__list_inbox")["unreadCount"] == 1


def test_hostile_text_is_returned_byte_for_byte(team_on_each_engine):
    words = [
        "' OR 1=1 --",
        "'); DROP TABLE mail;--",
        "%27",
        "<script>1</script>",
        "a\u202e\tb",
        "{{7*7}}",
        ":name $1",
    ]
    for text in words:
        id = send(team_on_each_engine, toAgentId="sup", subject=text, body=text)
        mail = team_on_each_engine.call("sup", "mcp__mail__read", mailId=id)
        assert (mail["subject"], mail["body"]) == (text, text)
    id = send(team_on_each_engine, toAgentId="sup", body="a\r\n\tb")
    assert team_on_each_engine.call("sup", "mcp__mail__read", mailId=id)["body"] == "a\r\n\tb"


def test_unknown_recipient_is_answered_with_what_a_worker_can_do(team):
    answer = team.answer("w1", "mcp__mail__send", toAgentId="suq", subject="s", body="b").body["error"]["details"]
    assert answer == {
        "agent": "suq",
        "hint": "Did you mean 'sup'? Without an id, write to role:SUPERVISOR, human or everyone with `to`, "
        "or answer a mail with mcp__mail__reply",
    }
    unlike = team.answer("w1", "mcp__mail__send", toAgentId="zzzzz", subject="s", body="b").body["error"]["details"]
    assert unlike["hint"].startswith("Without an id, write to role:SUPERVISOR")
