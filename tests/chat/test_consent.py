"""When a message agrees to a deletion, and when it does not."""

from __future__ import annotations

import pytest

from shopfloor.domain.conversations import Asked, agrees, names, question, title_of

TASKS = [
    (1, "Buy milk"),
    (2, "Buy milk and bread"),
    (3, "Call dentist"),
    (4, "Buy milk"),
    (5, "delete"),
    (6, "Order 15 eggs"),
    (7, "all tasks"),
    (15, "Taxes"),
]


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        ("delete task 3", {3}),
        ("Delete #1", {1}),
        ("delete 3", {3}),
        ("Please delete the task number 3, thanks", set()),
        ("please delete task number 3", {3}),
        ("delete tasks 3, 6 and 15", {3, 6, 15}),
        ("Delete Call dentist", {3}),
        ("please remove “call  DENTIST” from my list!", {3}),
        ("delete taxes and call dentist", {3, 15}),
        ("delete buy milk and bread", {2}),
        ("Lösche bitte die Aufgabe Call dentist", {3}),
        ("delete order 15 eggs", {6}),
        # what could be meant otherwise, or is no order to delete, is asked about
        ("delete Buy milk", set()),
        ("delete the dentist task", set()),
        ("delete it", set()),
        ("delete delete", set()),
        ("delete 3 tasks", set()),
        ("delete all tasks", set()),
        ("delete everything except call dentist", set()),
        ("don't delete call dentist", set()),
        ("never delete task 3", set()),
        ("should I delete call dentist?", set()),
        ("what happens if I delete task 3", set()),
        ("mark call dentist as done and delete the other one", set()),
        ("I finished call dentist", set()),
        ("show my tasks", set()),
        ("yes", set()),
        ("", set()),
    ],
)
def test_what_a_message_asks_to_delete(message, meant):
    assert {number for number, _ in TASKS if names(message, number, TASKS)} == meant


@pytest.mark.parametrize(
    "message", ["yes", "Yes!", "yes, delete it.", " YES PLEASE ", "Ja, bitte", "oui", "はい", "do it"]
)
def test_a_yes(message):
    assert agrees(message)


@pytest.mark.parametrize(
    "message", ["", "no", "ok", "thanks", "yesterday", "yes but not that one", "yes?  no", "maybe"]
)
def test_not_a_yes(message):
    assert not agrees(message)


def test_the_question_names_what_is_at_stake():
    assert question([Asked(3, "Call dentist")]) == 'Delete "Call dentist" (task 3)? Answer yes to delete it.'
    assert question([Asked(3, "Call"), Asked(4, "Buy")]) == (
        'Delete these 2 tasks? Answer yes to delete them.\n- "Call" (task 3)\n- "Buy" (task 4)'
    )


def test_a_conversation_is_called_as_it_begins():
    assert title_of("Add a\ntask") == "Add a task"
    assert len(title_of("x" * 500)) == 60
