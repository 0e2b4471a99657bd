"""The texts that a conversation gets from the server itself."""

from __future__ import annotations

from shopfloor.domain.conversations import MAX_TITLE_CHARACTERS, PendingDeletion, format_question, shorten_title


def test_question_names_every_task():
    assert format_question([PendingDeletion(3, "Call dentist")]) == (
        'Delete "Call dentist" (task 3)? Nothing is deleted until you confirm.'
    )
    assert format_question([PendingDeletion(3, "Call"), PendingDeletion(4, "Buy")]) == (
        'Delete these 2 tasks? Nothing is deleted until you confirm.\n- "Call" (task 3)\n- "Buy" (task 4)'
    )


def test_title_of_a_conversation_is_its_shortened_first_message():
    assert shorten_title("Add a\ntask") == "Add a task"
    assert len(shorten_title("x" * 500)) == MAX_TITLE_CHARACTERS
