"""The chat endpoint: setup, permissions, limits and conversations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from shopfloor.chat.model import OFF_NO_KEY, OFF_NOT_INSTALLED, find_missing_setup
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.serving import serve_in_thread


@pytest.fixture
def api() -> str:
    return "chat_completions"


def test_chat_without_a_key_explains_the_setup_and_tools_still_work(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Shopfloor(Settings(project=tmp_path, port=0)) as shopfloor, serve_in_thread(shopfloor) as server:
        customer = server.user("customer")
        answer = customer.post("/api/chat", json={"message": "hello"})
        assert answer.json() == {"conversationId": None, "response": OFF_NO_KEY, "toolCalls": [], "error": "CHAT_OFF"}
        assert "OPENAI_API_KEY" in OFF_NO_KEY
        streamed = customer.post("/api/chat", json={"message": "hello"}, headers={"Accept": "text/event-stream"})
        assert streamed.text == f"event: done\ndata: {json.dumps(answer.json())}\n\n"
        server.call("customer", "add_task", title="Buy milk")
        assert server.titles("customer") == ["Buy milk"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"message": "hello", "conversationId": "\\ud800"}',
        b'{"message": "hello", "conversationId": NaN}',
        b'{"message": "hello", "conversationId": 1e400}',
        b'{"message": "hello", "message": "goodbye"}',
        '{"message": "hello"}'.encode("utf-16"),
    ],
)
def test_body_that_cannot_be_answered_is_rejected_while_the_chat_is_off(tmp_path, monkeypatch, body):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Shopfloor(Settings(project=tmp_path, port=0)) as shopfloor, serve_in_thread(shopfloor) as server:
        answer = server.user("customer").post("/api/chat", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID_INPUT")


def test_chat_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_missing_setup(Settings(project=tmp_path)) == OFF_NOT_INSTALLED


def test_custom_endpoint_needs_no_key(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert find_missing_setup(Settings(project=tmp_path, chat_base_url="http://127.0.0.1:1/v1")) is None


def test_api_key_is_not_in_printed_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-0123456789")
    settings = Settings(project=tmp_path)
    assert settings.chat_key == "sk-very-secret-key-0123456789"
    assert "very-secret" not in repr(settings) + settings.model_dump_json()


def test_default_model_is_that_of_the_contract(tmp_path):
    assert Settings(project=tmp_path).chat_model == "gpt-4o"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": ""},
        {"message": "  "},
        {"message": "x" * 4001},
        {"message": 5},
        {"message": None},
        {"message": "hi", "conversationId": "1"},
        {"message": "hi", "conversationId": 1},
        {"message": "hi", "user_id": "guest"},
        [],
        "hi",
    ],
)
def test_invalid_chat_message_is_rejected(server, body):
    answer = server.user("customer").post("/api/chat", json=body)
    assert answer.status_code == 422
    assert answer.json()["success"] is False
    assert server.user("customer").get("/api/conversations").json()["conversations"] == []


def test_message_of_4000_characters_is_accepted(server):
    assert server.user("customer").post("/api/chat", json={"message": "🦀" * 4000}).status_code == 200


def test_chat_body_that_is_not_json_is_rejected(server):
    customer = server.user("customer")
    for body in (b"{", b"\xff", b"[" * 5000):
        answer = customer.post("/api/chat", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422


def test_turns_per_minute_are_limited_per_user(tmp_path, settings):
    limited = Settings(**settings.model_dump(exclude_unset=True) | {"chat_turns": 2})
    with Shopfloor(limited) as shopfloor, serve_in_thread(shopfloor) as server:
        customer, guest = server.user("customer"), server.user("guest")
        statuses = [customer.post("/api/chat", json={"message": "hello"}).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert int(customer.post("/api/chat", json={"message": "hello"}).headers["Retry-After"]) > 0
        assert guest.post("/api/chat", json={"message": "hello"}).status_code == 200


def test_chat_needs_a_user_token(server):
    server.user("customer")
    assert httpx2.post(f"{server.url}/api/chat", json={"message": "hello"}).status_code == 401
    token = server.shopfloor.create_agent("worker-1")["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx2.post(f"{server.url}/api/chat", json={"message": "hello"}, headers=headers).status_code == 403


def test_conversations_of_others_look_absent(server, requests):
    customer, guest = server.user("customer"), server.user("guest")
    id = customer.post("/api/chat", json={"message": "Customer's secret"}).json()["conversationId"]
    strange, missing = guest.get(f"/api/conversations/{id}"), guest.get("/api/conversations/conv-999")
    assert (strange.status_code, missing.status_code) == (404, 404)
    assert strange.text.replace(id.removeprefix("conv-"), "N") == missing.text.replace("999", "N")
    requests()
    assert guest.post("/api/chat", json={"message": "recite", "conversationId": id}).status_code == 404
    assert requests() == [], "the model got no request"
    assert guest.delete(f"/api/conversations/{id}").status_code == 404
    assert guest.get("/api/conversations").json()["conversations"] == []
    assert [each["title"] for each in customer.get("/api/conversations").json()["conversations"]] == [
        "Customer's secret"
    ]


def test_deleting_a_conversation_deletes_its_messages(server):
    customer = server.user("customer")
    id = customer.post("/api/chat", json={"message": "hello"}).json()["conversationId"]
    assert customer.delete(f"/api/conversations/{id}").json() == {
        "success": True,
        "conversationId": id,
        "deleted": True,
    }
    assert customer.get(f"/api/conversations/{id}").status_code == 404
    rows = server.shopfloor.engine.database.store.read(
        lambda connection: connection.fetch_all("SELECT * FROM chat_message")
    )
    assert rows == []


def test_conversations_are_paginated_latest_first(server):
    for number in range(60):
        server.shopfloor.call(
            "personal", "begin_turn", {"message": f"hello {number}", "history": 1, "seconds": 1}, "customer"
        )
    customer = server.user("customer")
    first = customer.get("/api/conversations").json()
    rest = customer.get("/api/conversations", params={"cursor": first["nextCursor"]}).json()
    titles = [each["title"] for each in first["conversations"] + rest["conversations"]]
    assert titles == [f"hello {number}" for number in reversed(range(60))]
    assert "nextCursor" not in rest
    assert customer.get("/api/conversations", params={"cursor": "x"}).status_code == 422


def test_calls_of_the_assistant_are_logged_under_the_user(server):
    server.user("customer").post("/api/chat", json={"message": "Add a task to buy milk"})
    server.shopfloor.engine.database.store.flush()
    rows = server.shopfloor.engine.database.store.read(
        lambda connection: connection.fetch_all(
            "SELECT toolset, tool, subject FROM decision WHERE kind = 'invocation' AND toolset <> 'desk' ORDER BY id"
        )
    )
    assert rows == [
        ("personal", "begin_turn", "user:customer"),
        ("todo", "add_task", "user:customer"),
        ("personal", "end_turn", "user:customer"),
    ]


def test_chat_connects_only_to_the_configured_endpoint(model, tmp_path):
    """Run a turn in a process that records its connections."""
    script = Path(__file__).parent / "connections.py"
    environment = {**os.environ, "OPENAI_API_KEY": "sk-stub-0123456789abcdef"}
    result = subprocess.run(
        [sys.executable, str(script), model, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["response"] == 'I added "Buy milk".'
    assert answer["hosts"] == [model.rpartition("/")[2]]


def test_sdk_is_not_imported_before_the_first_message():
    code = "import sys, shopfloor.serving; print('agents' in sys.modules, 'openai' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]
