from __future__ import annotations

from contextlib import suppress

import pytest

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.mail import HUMAN, agent_party
from shopfloor.errors import AgentNotFound
from shopfloor.usecases import mail
from tests.factory.team import Team


def send(team, caller="w1", **input):
    return team.call(caller, "mcp__mail__send", **{"subject": "Hello", "body": "There"} | input)["mailId"]


def receipt(team, name, id):
    party = HUMAN if name == "human" else agent_party(name)
    return team.look(lambda work: work.mail.receipt(int(id.removeprefix("mail-")), party))


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
        {"to": ["role:NOBODY"]},
        {"to": ["w1"] * 101},
    ],
)
def test_a_mail_needs_exactly_one_address(team, address):
    code, _ = team.refused("w1", "mcp__mail__send", subject="Hello", body="There", **address)
    assert code == "INVALID_INPUT"
    assert team.events("mail.sent") == []


def test_a_mail_without_address_says_what_is_missing(team):
    assert team.refused("w1", "mcp__mail__send", subject="Hello", body="There") == (
        "INVALID_INPUT",
        "Must specify either toAgentId or toHuman: true",
    )


def test_a_mail_to_an_unknown_agent_is_refused(team):
    assert team.refused("w1", "mcp__mail__send", toAgentId="ghost", subject="Hello", body="There") == (
        "AGENT_NOT_FOUND",
        "Agent 'ghost' does not exist.",
    )
    assert team.refused("w1", "mcp__mail__send", to=["sup", "ghost"], subject="s", body="b")[0] == "AGENT_NOT_FOUND"
    assert team.inbox("sup") == []


def test_a_mail_to_oneself_arrives(team):
    send(team, toAgentId="w1", toHuman=False)
    assert [(mail["fromAgentId"], mail["fromAgentType"]) for mail in team.inbox("w1")] == [("w1", "WORKER")]


@pytest.mark.parametrize("input", [{"subject": ""}, {"body": ""}, {"subject": "x" * 201}, {"body": "x" * 65537}])
def test_a_mail_has_words_and_limits(team, input):
    words = {"subject": "Hello", "body": "There"} | input
    assert team.refused("w1", "mcp__mail__send", toAgentId="sup", **words)[0] == "INVALID_INPUT"


def test_limits_count_characters_and_the_largest_body_comes_back_whole(team):
    body = "\N{ROCKET}" * 65536
    id = send(team, toAgentId="sup", subject="\N{ROCKET}" * 200, body=body)
    (short,) = team.inbox("sup")
    assert (short["body"], short["bodyTruncated"]) == (body[:1000], True)
    whole = team.call("sup", "mcp__mail__read", mailId=id)
    assert whole["body"] == body
    assert "bodyTruncated" not in whole


def test_one_mail_goes_to_several_a_role_or_everyone(team):
    assert team.call("sup", "mcp__mail__send", to=["w1", "w2", "w1"], subject="s", body="b")["recipients"] == 2
    assert team.call("w1", "mcp__mail__send", to="role:WORKER", subject="s", body="b")["recipients"] == 1
    assert team.call("w1", "mcp__mail__send", to="everyone", subject="s", body="b")["recipients"] == 4  # and local
    assert team.call("w1", "mcp__mail__send", to=["human", "sup"], subject="s", body="b")["recipients"] == 2
    assert len(team.inbox("w2")) == 3
    assert len(team.inbox("w1")) == 1


def test_a_retired_agent_gets_no_mail(team):
    team.shop.retire("w2")
    assert team.refused("w1", "mcp__mail__send", toAgentId="w2", subject="s", body="b")[0] == "AGENT_NOT_FOUND"
    assert team.call("sup", "mcp__mail__send", to="role:WORKER", subject="s", body="b")["recipients"] == 1


# What is told


def test_each_recipient_is_an_event_with_exactly_the_promised_data(team):
    send(team, toAgentId="sup", subject="Need Help")
    send(team, toHuman=True, subject="Urgent")
    send(team, to=["sup", "orc"], subject="Both")
    assert team.events("mail.sent") == [
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
    assert team.look(lambda work: work.outbox.backlog()) == (0, 0)


def test_a_mail_that_was_taken_back_is_not_logged(team, caplog):
    def sent_and_refused(work):
        with suppress(AgentNotFound), work.savepoint():
            mail.send(work, [agent_party("sup")], "Never", "Never")
            raise AgentNotFound
        return work.told

    with caplog.at_level("INFO", logger="shopfloor.mail"):
        assert team.shop.floor.works.write(sent_and_refused, OPERATOR) == []
    assert [record for record in caplog.records if record.name == "shopfloor.mail"] == []


def test_sending_is_a_sign_of_life(team):
    before = team.shop.agent("w1").last_active_at
    team.skip(1)
    send(team, toAgentId="sup")
    assert team.shop.agent("w1").last_active_at >= before + 1_000_000


# Reading and replying


def test_reading_marks_as_read_once(team):
    id = send(team, toAgentId="sup")
    first = team.call("sup", "mcp__mail__read", mailId=id)
    team.skip(60)
    again = team.call("sup", "mcp__mail__read", mailId=id)
    assert first["isRead"] is True
    assert again["readAt"] == first["readAt"]
    assert team.call("sup", "mcp__mail__list_inbox")["unreadCount"] == 0
    assert team.call("sup", "mcp__mail__list_inbox", includeRead=True)["mails"][0]["isRead"] is True


@pytest.mark.parametrize("tool", ["read", "acknowledge"])
def test_somebody_elses_mail_is_denied_and_stays_unread(team, tool):
    id = send(team, toAgentId="sup", body="canary")
    for stranger in ("w2", "w1"):
        answer = team.answer(stranger, f"mcp__mail__{tool}", mailId=id)
        assert answer.body["error"]["code"] == "PERMISSION_DENIED"
        assert "canary" not in answer.text
    assert receipt(team, "sup", id).read_at is None


@pytest.mark.parametrize("id", ["mail-99", "mail-0", "mail-01", "task-1", "99", "", "mail-99999999999999999999"])
def test_a_mail_that_does_not_exist_is_not_found(team, id):
    assert team.refused("sup", "mcp__mail__read", mailId=id)[0] == "RESOURCE_NOT_FOUND"
    assert team.refused("sup", "mcp__mail__reply", originalMailId=id, body="b")[0] == "RESOURCE_NOT_FOUND"


def test_a_reply_goes_to_the_sender_with_one_re_however_long_the_thread(team):
    first = send(team, toAgentId="sup", subject="Need Help")
    second = team.call("sup", "mcp__mail__reply", originalMailId=first, body="How?")["mailId"]
    third = team.call("w1", "mcp__mail__reply", originalMailId=second, body="So")["mailId"]
    (mail,) = team.inbox("sup")[:1]
    assert (mail["id"], mail["subject"]) == (third, "Re: Need Help")
    assert (mail["threadId"], mail["inReplyTo"]) == (first, second)


def test_only_who_received_a_mail_can_reply(team):
    id = send(team, toAgentId="sup")
    for stranger in ("w1", "w2"):
        code, _ = team.refused(stranger, "mcp__mail__reply", originalMailId=id, body="b")
        assert code == "PERMISSION_DENIED"


def test_a_reply_to_the_person_reaches_the_person(team):
    asked = send(team, toHuman=True)
    answered = team.call(None, "inbox_reply", mailId=asked, body="Go on")["mailId"]
    (mail,) = team.inbox("w1")
    assert (mail["fromAgentId"], mail["fromAgentType"], mail["bodyIsUntrusted"]) == ("human", "HUMAN", False)
    back = team.call("w1", "mcp__mail__reply", originalMailId=answered, body="Thanks")["mailId"]
    assert [one["id"] for one in team.call(None, "inbox_list")["mails"]] == [back]


def test_nobody_can_be_hired_under_the_names_of_others(team):
    for name in ("human", "Human", "shopfloor", "everyone"):
        assert team.refused("sup", "mcp__supervisor__create_agent", agentId=name)[0] == "INVALID_INPUT"


def test_an_argument_cannot_name_the_sender(team):
    code, _ = team.refused("w1", "mcp__mail__send", toAgentId="sup", subject="s", body="b", fromAgentId="orc")
    assert code == "INVALID_INPUT"


# Delivery


def test_a_mail_is_stored_then_delivered_then_read_then_acted_on(team_anywhere):
    team = team_anywhere
    id = send(team, toAgentId="sup")
    assert receipt(team, "sup", id).delivered_at is None
    team.call("sup", "mcp__agent__get_status")
    assert receipt(team, "sup", id).delivered_at is not None
    assert receipt(team, "sup", id).read_at is None
    team.call("sup", "mcp__mail__read", mailId=id)
    assert receipt(team, "sup", id).acted_at is None
    team.call("sup", "mcp__mail__reply", originalMailId=id, body="b")
    (sent,) = team.call("w1", "mcp__mail__list_inbox", sent=True)["mails"]
    (state,) = sent["recipients"]
    assert state["id"] == "sup"
    assert state["deliveredAt"] <= state["readAt"] <= state["actedAt"]


@pytest.mark.parametrize("tool", ["list_inbox", "wait"])
def test_what_a_list_shows_is_delivered(team, tool):
    id = send(team, toAgentId="sup")
    team.call("sup", f"mcp__mail__{tool}")
    assert receipt(team, "sup", id).delivered_at is not None
    assert receipt(team, "sup", id).read_at is None


def test_every_answer_says_that_there_is_unread_mail_also_a_refusal(team):
    assert team.answer("sup", "mcp__agent__get_status").call.notice is None
    first = send(team, toAgentId="sup")
    send(team, caller="w2", toAgentId="sup")
    assert (
        team.answer("sup", "mcp__agent__get_status").call.notice
        == "You have 2 unread mails; newest from w2: mcp__mail__list_inbox"
    )
    team.call("sup", "mcp__mail__read", mailId=first)
    refusal = team.answer("sup", "mcp__mail__read", mailId="mail-99").call
    assert refusal.notice == "You have 1 unread mail; newest from w2: mcp__mail__list_inbox"


def test_an_acknowledgement_that_does_not_come_is_escalated_once(team):
    id = send(team, "sup", toAgentId="w1", ackWithinMinutes=5)
    team.skip(299)
    assert team.do(mail.escalate_overdue) == 0
    team.skip(2)
    assert team.do(mail.escalate_overdue) == 1
    assert team.do(mail.escalate_overdue) == 0
    (told,) = team.inbox("sup")
    assert (told["fromAgentType"], told["subject"]) == ("SYSTEM", "Not acknowledged: Hello")
    assert id in told["body"]


def test_an_acknowledged_mail_is_not_escalated(team):
    id = send(team, "sup", toAgentId="w1", ackWithinMinutes=5)
    assert team.inbox("w1")[0]["acknowledgeBefore"] > team.inbox("w1")[0]["createdAt"]
    team.call("w1", "mcp__mail__acknowledge", mailId=id)
    team.skip(3600)
    assert team.do(mail.escalate_overdue) == 0


# Lists


def test_the_inbox_is_paged_newest_first(team_anywhere):
    team = team_anywhere
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


def test_a_page_of_large_mails_stays_below_the_limit_and_says_so(team):
    for _ in range(200):
        send(team, toAgentId="sup", body="\N{ROCKET}" * 65536)
    whole = team.answer("sup", "mcp__mail__list_inbox", limit=200)
    assert whole.body["data"]["truncated"] is True
    assert len(whole.text.encode()) < 100_000
    usual = team.answer("sup", "mcp__mail__list_inbox")
    assert len(usual.text.encode()) < 20_000
    assert usual.body["data"]["nextCursor"]


@pytest.mark.parametrize("cursor", ["nonsense", "MTEy!", "", "\N{ROCKET}", "MWFiYw"])
def test_a_made_up_cursor_is_refused(team, cursor):
    assert team.refused("sup", "mcp__mail__list_inbox", cursor=cursor)[0] == "INVALID_INPUT"


@pytest.mark.parametrize("limit", [0, 201, True, "5"])
def test_a_limit_is_a_number_from_1_to_200(team, limit):
    assert team.refused("sup", "mcp__mail__list_inbox", limit=limit)[0] == "INVALID_INPUT"


def test_only_what_is_shown_is_delivered_by_a_list(team):
    ids = [send(team, toHuman=True) for _ in range(3)]
    assert team.call(None, "inbox_list", limit=2)["count"] == 2
    delivered = [receipt(team, "human", id).delivered_at is not None for id in ids]
    assert delivered == [False, True, True]


def test_another_workspace_is_another_world(tmp_path, database):
    with Team(tmp_path, database=database) as here, Team(tmp_path, database=database, workspace="there") as there:
        id = send(here, toAgentId="sup")
        assert there.inbox("sup") == []
        assert there.refused("sup", "mcp__mail__read", mailId=id)[0] == "RESOURCE_NOT_FOUND"
        task, epic = here.task(), here.epic()
        assert there.refused("sup", "mcp__task__get", taskId=task)[0] == "RESOURCE_NOT_FOUND"
        assert there.refused("sup", "mcp__epic__get", epicId=epic)[0] == "RESOURCE_NOT_FOUND"
        assert there.call("w1", "mcp__task__claim")["task"] is None


# Again


def test_a_repeated_send_with_the_same_key_is_one_mail(team_anywhere):
    team = team_anywhere
    answers = []
    for _ in range(2):
        call = team.shop._call(
            "factory", "mcp__mail__send", {"toAgentId": "sup", "subject": "s", "body": "b"}, "w1", "python"
        )
        call.key = "only-once"
        answers.append(team.floor.call(call))
    assert answers[0].body["data"] == answers[1].body["data"]
    assert [answer.call.replayed for answer in answers] == [False, True]
    assert len(team.events("mail.sent")) == 1
    assert team.call("sup", "mcp__mail__list_inbox")["unreadCount"] == 1


def test_hostile_text_comes_back_byte_for_byte(team_anywhere):
    words = [
        "' OR 1=1 --",
        "'); DROP TABLE mail;--",
        "%27",
        "<script>1</script>",
        "\u202e\r\n\t",
        "{{7*7}}",
        ":name $1",
    ]
    for text in words:
        id = send(team_anywhere, toAgentId="sup", subject=text, body=text)
        mail = team_anywhere.call("sup", "mcp__mail__read", mailId=id)
        assert (mail["subject"], mail["body"]) == (text, text)
