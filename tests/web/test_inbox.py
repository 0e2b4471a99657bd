"""The inbox in a browser: a list and a thread, answers that stay visible, and nothing that was typed is lost."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from shopfloor.domain.mail import HUMAN
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import mail
from shopfloor.web.views.inbox import find_further_text, parse_permission, summarize_mail
from tests.web.desk_support import Desk, open_desk_context


def _rows(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(".inbox-title").all_inner_texts()]


def test_answers_and_done_empty_the_inbox_one_by_one(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/inbox")
    expect(operator.locator(".inbox-row")).to_have_count(3)
    operator.get_by_role("button", name="Allow once").click()
    expect(operator.get_by_role("status")).to_contain_text("Answered “Allow once”")
    expect(operator.locator(".inbox-row")).to_have_count(2)
    operator.get_by_role("button", name="Use a queue", exact=True).click()
    expect(operator.locator(".inbox-row")).to_have_count(1)
    operator.get_by_role("button", name="Done").click()
    expect(operator.get_by_text("Nothing is waiting for you.")).to_be_visible()
    expect(operator.locator("[data-badge]")).to_be_hidden()
    operator.get_by_role("button", name="Undo").click()
    expect(operator.locator(".inbox-row")).to_have_count(1)


def test_what_was_answered_stays_visible_with_the_answer_and_its_author(populated: Desk, operator: Page) -> None:
    populated.ask("inbox_decide", request=1, answer="always")
    populated.ask("inbox_answer", mailId="mail-2", answer="neither of them")
    populated.open_page(operator, "/inbox?show=all")
    expect(operator.locator(".inbox-row")).to_have_count(3)
    expect(operator.locator(".inbox-row", has_text="allowed for the run")).to_have_count(1)
    populated.open_page(operator, "/inbox/request-1")
    expect(operator.locator(".given-answer")).to_contain_text("Answered Allow for this run by operator")
    populated.open_page(operator, "/inbox/mail-2")
    expect(operator.locator(".given-answer")).to_contain_text("Answered neither of them by operator")


def test_a_permission_shows_its_command_and_says_what_each_answer_covers(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/inbox/request-1")
    expect(operator.locator(".command")).to_have_text("Use a queue")
    for name in ("Allow once", "Allow for this run", "Deny"):
        expect(operator.get_by_role("button", name=name, exact=True)).to_be_visible()
    expect(operator.locator(".scopes")).to_contain_text("other runs still ask")
    expect(operator.locator(".context")).to_contain_text("night")


def test_a_permission_of_a_crew_is_shown_like_that_of_a_run() -> None:
    question = "night-worker-1, night.task-4: May the agent execute: bash?\nrm *.o && make *all*"
    permission = parse_permission({"kind": "permission", "question": question})
    assert permission == {"kind": "execute", "title": "bash", "details": "rm *.o && make *all*"}
    other = "Hello, world: this. May the agent execute: bash?"
    assert parse_permission({"kind": "permission", "question": other}) is None


def test_reading_is_not_acknowledging(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/inbox/mail-1")
    assert populated.ask("inbox_show", mailId="mail-1")["readAt"] is not None
    assert "mail-1" in {mail["id"] for mail in populated.ask("inbox_list")["mails"]}
    populated.open_page(operator, "/inbox")
    expect(operator.locator(".inbox-row")).to_have_count(3)
    expect(operator.locator(".inbox-row.unread")).to_have_count(2)
    # Fault F35: a row that was read lost its left border, and moved.
    frames = operator.locator(".inbox-row").evaluate_all(
        "rows => rows.map((row) => [row.offsetLeft, row.offsetWidth, row.offsetHeight, getComputedStyle(row).border])"
    )
    assert len({str(frame) for frame in frames}) == 1


def test_a_question_with_options_is_answered_in_other_words(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/inbox/mail-2")
    operator.get_by_label("Answer to Use a queue").fill("Use both")
    operator.get_by_role("button", name="Answer", exact=True).click()
    expect(operator.locator(".given-answer")).to_contain_text("Answered Use both by operator")
    # It waits no longer, so there is nothing to be done with.
    expect(operator.get_by_role("button", name="Done", exact=True)).to_have_count(0)
    expect(operator.locator(".thread .person")).to_have_text([re.compile("you")])
    assert populated.call_as("builder", "mcp__mail__ask", ticket="mail-2", timeoutSeconds=0)["answer"] == "Use both"


def test_a_rejected_answer_stays_in_its_field(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/inbox/mail-2")
    operator.get_by_label("Answer to Use a queue").fill("Too late")
    operator.route("**/live?*", lambda route: route.abort())
    populated.ask("inbox_answer", mailId="mail-2", answer="no")
    operator.get_by_role("button", name="Answer", exact=True).click()
    expect(operator.get_by_role("alert")).to_contain_text("mail-2 has already been answered: no")
    expect(operator.get_by_label("Answer to Use a queue")).to_have_value("Too late")
    populated.watch.problems.clear()  # the aborted stream


def test_a_mail_shows_the_task_of_its_sender_with_epic_and_comments(populated: Desk, operator: Page) -> None:
    populated.call_as("lead", "mcp__task__add_comment", taskId="task-2", body="Mind the **lock**")
    sent = populated.call_as("tester", "mcp__mail__send", toHuman=True, subject="About task-2", body="Is it needed?")
    populated.open_page(operator, f"/inbox/{sent['mailId']}")
    context = operator.get_by_label("Context")
    expect(context.get_by_role("link", name="Second: Use a queue")).to_have_attribute("href", "/tasks/2")
    expect(context).to_contain_text("Mind the lock")


def test_mail_is_replied_to_forwarded_and_composed(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/inbox/mail-1")
    operator.get_by_label("Your reply").fill("I am on it")
    operator.get_by_role("button", name="Send", exact=True).click()
    expect(operator.locator(".message-block")).to_have_count(2)
    operator.get_by_text("Forward…").click()
    operator.locator('form[action="/act/inbox_delegate"] select').select_option("tester")
    operator.get_by_label("Note").fill("Please see")
    operator.get_by_role("button", name="Forward", exact=True).click()
    expect(operator.get_by_role("status")).to_contain_text("Forwarded to tester")
    for to in ("builder", "role:SUPERVISOR"):
        operator.locator(".compose-menu summary").click()
        operator.get_by_label("To", exact=True).first.fill(to)
        operator.get_by_label("Subject").fill(f"Hello {to}")
        operator.get_by_label("Body").fill("There")
        operator.locator(".compose-panel").get_by_role("button", name="Send").click()
        expect(operator.get_by_role("status")).to_contain_text(f"Sent to {to}")
    subjects = {
        name: {mail["subject"] for mail in populated.call_as(name, "mcp__mail__list_inbox")["mails"]}
        for name in ("tester", "builder", "lead")
    }
    assert subjects["tester"] == {"Fwd: Use a queue"}
    assert "Hello builder" in subjects["builder"]
    assert "Hello role:SUPERVISOR" in subjects["lead"]


def test_mail_from_the_server_has_no_reply_form(populated: Desk, operator: Page) -> None:
    def send(uow: UnitOfWork) -> int:
        return mail.send_system_mail(uow, [HUMAN], "Crew shop: completed", "8 tasks", about=None)

    number = populated.write(send)
    populated.open_page(operator, f"/inbox/mail-{number}")
    expect(operator.get_by_role("heading", name="Crew shop: completed")).to_be_visible()
    expect(operator.get_by_text("Forward…")).to_be_visible()
    expect(operator.get_by_label("Your reply")).to_have_count(0)


def test_a_thread_is_snoozed_and_shown_again(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/inbox/mail-1")
    operator.get_by_label("More actions").click()
    operator.get_by_role("button", name="Snooze this thread 1 day").click()
    expect(operator.locator(".inbox-row")).to_have_count(2)
    operator.get_by_role("button", name="Undo").click()
    expect(operator.locator(".inbox-row")).to_have_count(3)


def test_the_inbox_is_worked_off_with_the_keyboard_alone(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/inbox")
    operator.keyboard.press("2")
    expect(operator.locator(".inbox-row")).to_have_count(2)
    assert populated.ask("inbox_request", request=1)["answer"] == "always"
    operator.keyboard.press("j")
    operator.keyboard.press("j")
    expect(operator.locator(".inbox-row.selected .inbox-from")).to_have_text("builder")
    operator.keyboard.press("Enter")
    operator.wait_for_url(f"{populated.url}/inbox/mail-1")
    operator.wait_for_selector('#live[data-state="live"]')
    operator.keyboard.press("r")
    operator.keyboard.type("By keyboard")
    operator.keyboard.press("Tab")
    operator.keyboard.press("Enter")
    expect(operator.locator(".message-block")).to_have_count(2)
    operator.keyboard.press("?")
    expect(operator.get_by_role("dialog")).to_contain_text("choose an answer")
    operator.keyboard.press("Escape")
    expect(operator.get_by_role("dialog")).to_have_count(0)


def test_a_narrow_screen_shows_the_list_or_the_thread(populated: Desk, browser: Browser) -> None:
    with open_desk_context(browser, viewport={"width": 390, "height": 844}) as context:
        page = populated.sign_in(context)
        populated.open_page(page, "/inbox")
        expect(page.locator(".pane-item")).to_be_hidden()
        page.locator(".inbox-row a").first.click()
        page.wait_for_url(f"{populated.url}/inbox/request-1")
        expect(page.get_by_role("button", name="Deny")).to_be_visible()
        expect(page.locator(".pane-list")).to_be_hidden()
        page.get_by_role("link", name="Inbox", exact=True).last.click()
        page.wait_for_url(f"{populated.url}/inbox")


def test_good_news_from_the_server_is_not_an_alert() -> None:
    mail = {
        "id": "mail-1",
        "from": "shopfloor",
        "fromType": "SYSTEM",
        "subject": "Crew shop: completed",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "readAt": None,
        "actedAt": None,
        "muted": False,
    }
    shown = [summarize_mail({**mail, "importance": importance}) for importance in ("normal", "high")]
    assert [(each["symbol"], each["tone"]) for each in shown] == [("mail", ""), ("alert", "danger")]


@pytest.mark.parametrize(
    ("subject", "body", "further"),
    [
        ("Keep or trim?", "Keep or trim?", ""),
        ("Keep or trim?", "Keep or\n trim?\n", ""),
        ("Keep or trim?", "Keep or trim?\n\nBoth pass.", "Both pass."),
        ("Keep or tr…", "Keep or\ntrim the spaces?", "…im the spaces?"),
        ("Keep", "Keep or trim?", "Keep or trim?"),
        ("Which one?", "Keep or trim?", "Keep or trim?"),
    ],
)
def test_text_of_a_question_does_not_repeat_its_subject(subject: str, body: str, further: str) -> None:
    assert find_further_text(subject, body) == further


def test_a_question_without_a_subject_is_shown_once(populated: Desk, operator: Page) -> None:
    body = "Keep or trim spaces at the end?"
    mail_id = populated.call_as("builder", "mcp__mail__ask", body=body, timeoutSeconds=0)["ticket"]
    populated.open_page(operator, "/home")
    need = operator.locator(".need", has_text=body)
    expect(need.get_by_text(body, exact=True)).to_have_count(1)
    populated.open_page(operator, f"/inbox/{mail_id}")
    expect(operator.locator(".pane-item").get_by_text(body, exact=True)).to_have_count(1)


def test_questions_come_before_newer_alerts(populated: Desk, operator: Page) -> None:
    populated.call_as("builder", "mcp__mail__ask", body="Which provider?", timeoutSeconds=0)
    for number in range(60):
        populated.call_as("builder", "mcp__mail__send", toHuman=True, subject=f"News {number}", body="x")
    populated.open_page(operator, "/inbox")
    titles = _rows(operator)
    assert titles.index("Which provider?") < titles.index("News 59")
    assert titles.count("Which provider?") == 1
    populated.open_page(operator, "/inbox?show=all")
    assert _rows(operator).index("News 59") < len(titles)
