"""Conversations as they are kept, on both engines."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.conversations import INTERRUPTED


@pytest.fixture
def call(either_floor):
    def call(tool: str, caller: str = "customer", **given: Any) -> Any:
        return either_floor.call("personal", tool, given, caller)

    return call


def begin(call: Any, message: str, conversation: str | None = None, caller: str = "customer") -> Any:
    more = {} if conversation is None else {"conversationId": conversation}
    return call("begin_turn", caller, message=message, history=10, seconds=60, **more)


def end(call: Any, conversation: str, text: str = "Well.") -> Any:
    return call("end_turn", conversationId=conversation, text=text, toolCalls=[])


def test_a_turn_is_kept(call):
    begun = begin(call, "hello")
    assert [(each["role"], each["text"]) for each in begun["messages"]] == [("user", "hello")]
    assert end(call, "conv-1") == {"success": True, "text": "Well."}
    again = begin(call, "more", "conv-1")
    assert [each["text"] for each in again["messages"]] == ["hello", "Well.", "more"]
    assert call("read_conversation", conversationId="conv-1")["title"] == "hello"


def test_of_many_who_begin_at_once_one_does(call):
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


def test_a_turn_whose_process_died_holds_up_nobody(either_floor, call):
    begin(call, "hello")
    assert begin(call, "still there?", "conv-1")["code"] == "INVALID_AGENT_STATE"
    either_floor.floor.works.write(lambda work: work.processes.remove(work.process), OPERATOR)
    texts = [each["text"] for each in begin(call, "still there?", "conv-1")["messages"]]
    assert texts == ["hello", INTERRUPTED, "still there?"]


def test_a_deletion_is_asked_about_and_agreed_to(either_floor, call):
    call("add", title="Buy milk")
    begin(call, "get rid of the milk")
    asked = call("delete_in_turn", conversationId="conv-1", taskId=1)
    assert (asked["deleted"], asked["question"]) == (False, 'Delete "Buy milk" (task 1)? Answer yes to delete it.')
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["deleted"] is False
    assert end(call, "conv-1")["text"] == f"Well.\n\n{asked['question']}"
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["deleted"] is False, "not before the yes"
    assert call("read_conversation", conversationId="conv-1")["asked"] == [{"taskId": 1, "title": "Buy milk"}]
    begin(call, "yes", "conv-1")
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["deleted"] is True
    assert call("delete_in_turn", conversationId="conv-1", taskId=1)["error"] == "Task 1 not found"


def test_a_question_already_put_by_the_model_is_not_put_twice(call):
    call("add", title="Buy milk")
    begin(call, "get rid of the milk")
    question = call("delete_in_turn", conversationId="conv-1", taskId=1)["question"]
    assert end(call, "conv-1", f"Sure? {question}")["text"] == f"Sure? {question}"


def test_so_many_are_asked_about_and_no_more(call):
    for number in range(21):
        call("add", title=f"Task {number}")
    begin(call, "clear it")
    answers = [call("delete_in_turn", conversationId="conv-1", taskId=number + 1) for number in range(21)]
    assert [answer["success"] for answer in answers] == [True] * 20 + [False]
    begin_again = end(call, "conv-1")["text"]
    assert begin_again.count("(task ") == 20


def test_a_stranger_takes_no_part(call):
    call("add", title="Buy milk")
    begin(call, "Delete task 1")
    refused = {"success": False, "error": "Conversation 1 not found", "code": "RESOURCE_NOT_FOUND"}
    assert begin(call, "yes", "conv-1", "guest") == refused
    assert call("delete_in_turn", "guest", conversationId="conv-1", taskId=1) == refused
    assert call("end_turn", "guest", conversationId="conv-1", text="x", toolCalls=[]) == refused
    assert call("forget_conversation", "guest", conversationId="conv-1") == refused
    assert call("show_list")["count"] == 1


def test_conversations_page_by_page(call):
    for number in range(5):
        begin(call, f"hello {number}")
    first = call("show_conversations", limit=2)
    second = call("show_conversations", limit=2, cursor=first["nextCursor"])
    last = call("show_conversations", limit=2, cursor=second["nextCursor"])
    titles = [each["title"] for page in (first, second, last) for each in page["conversations"]]
    assert titles == [f"hello {number}" for number in (4, 3, 2, 1, 0)]
    assert "nextCursor" not in last
