"""Stored conversations, on both engines."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from shopfloor.domain.conversations import INTERRUPTED
from shopfloor.domain.principals import OPERATOR


@pytest.fixture
def call(server_on_each_engine):
    def call(tool: str, caller: str = "customer", **given: Any) -> Any:
        return server_on_each_engine.call("personal", tool, given, caller)

    return call


def begin(
    call: Any,
    message: str,
    conversation: str | None = None,
    caller: str = "customer",
    confirmation: str | None = None,
) -> Any:
    more = {"conversationId": conversation, "confirmationId": confirmation}
    given = {name: value for name, value in more.items() if value is not None}
    return call("begin_turn", caller, message=message, history=10, seconds=60, **given)


def end(call: Any, conversation: str, text: str = "Well.") -> Any:
    return call("end_turn", conversationId=conversation, text=text, toolCalls=[])


def test_turn_is_stored(call):
    begun = begin(call, "hello")
    assert [(each["role"], each["text"]) for each in begun["messages"]] == [("user", "hello")]
    assert end(call, "conv-1") == {"success": True, "text": "Well.", "confirmation": None}
    again = begin(call, "more", "conv-1")
    assert [each["text"] for each in again["messages"]] == ["hello", "Well.", "more"]
    assert call("read_conversation", conversationId="conv-1")["title"] == "hello"


def test_one_of_many_concurrent_turns_starts(call):
    begin(call, "hello")
    end(call, "conv-1")
    answers: list[Any] = []
    ready = threading.Barrier(8)

    def run() -> None:
        ready.wait()
        answers.append(begin(call, "at once", "conv-1")["success"])

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 7 + [True]


def test_turn_of_a_dead_process_blocks_no_other_turn(server_on_each_engine, call):
    begin(call, "hello")
    assert begin(call, "still there?", "conv-1")["code"] == "INVALID_AGENT_STATE"
    server_on_each_engine.engine.database.write(lambda uow: uow.processes.remove(uow.process), OPERATOR)
    texts = [each["text"] for each in begin(call, "still there?", "conv-1")["messages"]]
    assert texts == ["hello", INTERRUPTED, "still there?"]


def test_a_deletion_needs_the_id_of_its_confirmation(server_on_each_engine, call):
    call("add", title="Buy milk")
    begin(call, "get rid of the milk")
    asked = call("delete_in_turn", conversationId="conv-1", taskId=1)
    question = 'Delete "Buy milk" (task 1)? Nothing is deleted until you confirm.'
    assert (asked["deleted"], asked["question"]) == (False, question)
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["deleted"] is False
    ended = end(call, "conv-1")
    assert ended["text"] == f"Well.\n\n{question}"
    confirmation = ended["confirmation"]
    assert (confirmation["question"], confirmation["tasks"]) == (question, [{"taskId": 1, "title": "Buy milk"}])
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["deleted"] is False, "not before the confirmation"
    assert call("read_conversation", conversationId="conv-1")["confirmation"] == confirmation
    begun = begin(call, "yes", "conv-1", confirmation=confirmation["id"])
    assert begun["confirmed"] == [1]
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["deleted"] is True
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["error"] == "Task 1 not found"


def test_a_message_without_the_id_discards_the_confirmation(call):
    call("add", title="Buy milk")
    begin(call, "get rid of the milk")
    call("delete_in_turn", conversationId="conv-1", taskId=1)
    confirmation = end(call, "conv-1")["confirmation"]["id"]
    assert begin(call, "yes", "conv-1")["confirmed"] == []
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["deleted"] is False
    again = end(call, "conv-1")["confirmation"]["id"]
    assert again != confirmation
    assert begin(call, "yes", "conv-1", confirmation=confirmation)["code"] == "INVALID_AGENT_STATE"
    assert begin(call, "yes", "conv-1", confirmation=again)["confirmed"] == [1]


def test_confirmation_question_of_the_model_is_not_repeated(call):
    call("add", title="Buy milk")
    begin(call, "get rid of the milk")
    question = call("delete_in_turn", conversationId="conv-1", taskId=1)["question"]
    assert end(call, "conv-1", f"Sure? {question}")["text"] == f"Sure? {question}"


def test_at_most_twenty_deletions_are_pending_at_once(call):
    for number in range(21):
        call("add", title=f"Task {number}")
    begin(call, "clear it")
    answers = [call("delete_in_turn", conversationId="conv-1", taskId=number + 1) for number in range(21)]
    assert [answer["success"] for answer in answers] == [True] * 20 + [False]
    begin_again = end(call, "conv-1")["text"]
    assert begin_again.count("(task ") == 20


def test_another_user_cannot_join_the_conversation(call):
    call("add", title="Buy milk")
    begin(call, "Delete task 1")
    error = {"success": False, "error": "Conversation 1 not found", "code": "RESOURCE_NOT_FOUND"}
    assert begin(call, "yes", "conv-1", "guest") == error
    assert call("delete_in_turn", "guest", conversationId="conv-1", taskId=1) == error
    assert call("end_turn", "guest", conversationId="conv-1", text="x", toolCalls=[]) == error
    assert call("forget_conversation", "guest", conversationId="conv-1") == error
    assert call("show_list")["count"] == 1


def test_conversations_are_listed_in_pages(call):
    for number in range(5):
        begin(call, f"hello {number}")
    first = call("show_conversations", limit=2)
    second = call("show_conversations", limit=2, cursor=first["nextCursor"])
    last = call("show_conversations", limit=2, cursor=second["nextCursor"])
    titles = [each["title"] for page in (first, second, last) for each in page["conversations"]]
    assert titles == [f"hello {number}" for number in (4, 3, 2, 1, 0)]
    assert "nextCursor" not in last
