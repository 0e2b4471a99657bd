"""The chat's own rules: who may talk, how much, and what is kept for whom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from shopfloor.chat.model import OFF_NO_KEY, OFF_NOT_INSTALLED, switched_off
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.serving import served


@pytest.fixture
def api() -> str:
    return "chat_completions"


def test_without_a_key_it_says_how_to_switch_it_on_and_all_else_works(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Shopfloor(Settings(project=tmp_path, port=0)) as floor, served(floor) as server:
        customer = server.user("customer")
        answer = customer.post("/api/chat", json={"message": "hello"})
        assert answer.json() == {"conversationId": None, "response": OFF_NO_KEY, "toolCalls": [], "error": "CHAT_OFF"}
        assert "OPENAI_API_KEY" in OFF_NO_KEY
        streamed = customer.post("/api/chat", json={"message": "hello"}, headers={"Accept": "text/event-stream"})
        assert streamed.text == f"event: done\ndata: {json.dumps(answer.json())}\n\n"
        server.call("customer", "add_task", title="Buy milk")
        assert server.titles("customer") == ["Buy milk"]


def test_without_its_package_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert switched_off(Settings(project=tmp_path)) == OFF_NOT_INSTALLED


def test_an_endpoint_of_ones_own_needs_no_key(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert switched_off(Settings(project=tmp_path, chat_base_url="http://127.0.0.1:1/v1")) is None


def test_the_key_is_in_no_setting_that_could_be_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-0123456789")
    settings = Settings(project=tmp_path)
    assert settings.chat_key == "sk-very-secret-key-0123456789"
    assert "very-secret" not in repr(settings) + settings.model_dump_json()


def test_the_model_is_the_contracts_by_default(tmp_path):
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
def test_a_message_is_1_to_4000_characters(server, body):
    answer = server.user("customer").post("/api/chat", json=body)
    assert answer.status_code == 422
    assert answer.json()["success"] is False
    assert server.user("customer").get("/api/conversations").json()["conversations"] == []


def test_the_longest_message_is_taken(server):
    assert server.user("customer").post("/api/chat", json={"message": "🦀" * 4000}).status_code == 200


def test_a_broken_body_is_no_message(server):
    customer = server.user("customer")
    for body in (b"{", b"\xff", b"[" * 5000):
        answer = customer.post("/api/chat", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422


def test_turns_a_minute(tmp_path, settings):
    limited = Settings(**settings.model_dump(exclude_unset=True) | {"chat_turns": 2})
    with Shopfloor(limited) as floor, served(floor) as server:
        customer, guest = server.user("customer"), server.user("guest")
        statuses = [customer.post("/api/chat", json={"message": "hello"}).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert int(customer.post("/api/chat", json={"message": "hello"}).headers["Retry-After"]) > 0
        assert guest.post("/api/chat", json={"message": "hello"}).status_code == 200


def test_who_may_talk(server):
    server.user("customer")
    assert httpx2.post(f"{server.url}/api/chat", json={"message": "hello"}).status_code == 401
    server.floor.hire("worker-1", "WORKER", with_token=False)
    token = server.floor.issue_token(agent="worker-1")[1]
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx2.post(f"{server.url}/api/chat", json={"message": "hello"}, headers=headers).status_code == 403


def test_a_conversation_is_its_users_own(server, requests):
    customer, guest = server.user("customer"), server.user("guest")
    id = customer.post("/api/chat", json={"message": "Customer's secret"}).json()["conversationId"]
    strange, missing = guest.get(f"/api/conversations/{id}"), guest.get("/api/conversations/conv-999")
    assert (strange.status_code, missing.status_code) == (404, 404)
    assert strange.text.replace(id.removeprefix("conv-"), "N") == missing.text.replace("999", "N")
    requests()
    assert guest.post("/api/chat", json={"message": "recite", "conversationId": id}).status_code == 404
    assert requests() == [], "the model was not even asked"
    assert guest.delete(f"/api/conversations/{id}").status_code == 404
    assert guest.get("/api/conversations").json()["conversations"] == []
    assert [each["title"] for each in customer.get("/api/conversations").json()["conversations"]] == [
        "Customer's secret"
    ]


def test_a_user_deletes_a_conversation_with_all_that_was_said(server):
    customer = server.user("customer")
    id = customer.post("/api/chat", json={"message": "hello"}).json()["conversationId"]
    assert customer.delete(f"/api/conversations/{id}").json() == {
        "success": True,
        "conversationId": id,
        "deleted": True,
    }
    assert customer.get(f"/api/conversations/{id}").status_code == 404
    left = server.floor.floor.works.store.read(lambda connection: connection.all("SELECT * FROM chat_message"))
    assert left == []


def test_conversations_are_listed_the_latest_first_and_page_by_page(server):
    for number in range(60):
        server.floor.call(
            "personal", "begin_turn", {"message": f"hello {number}", "history": 1, "seconds": 1}, "customer"
        )
    customer = server.user("customer")
    first = customer.get("/api/conversations").json()
    rest = customer.get("/api/conversations", params={"cursor": first["nextCursor"]}).json()
    titles = [each["title"] for each in first["conversations"] + rest["conversations"]]
    assert titles == [f"hello {number}" for number in reversed(range(60))]
    assert "nextCursor" not in rest
    assert customer.get("/api/conversations", params={"cursor": "x"}).status_code == 422


def test_what_the_assistant_does_is_in_the_log_under_its_user(server):
    server.user("customer").post("/api/chat", json={"message": "Add a task to buy milk"})
    server.floor.floor.works.store.flush()
    rows = server.floor.floor.works.store.read(
        lambda connection: connection.all(
            "SELECT toolset, tool, subject FROM decision WHERE kind = 'invocation' ORDER BY id"
        )
    )
    assert rows == [
        ("personal", "begin_turn", "user:customer"),
        ("todo", "add_task", "user:customer"),
        ("personal", "end_turn", "user:customer"),
    ]


def test_nothing_goes_to_the_vendor_but_what_the_chat_is_for(model, tmp_path):
    """In a process of its own, every connection is noted: only the configured endpoint is ever called."""
    script = Path(__file__).parent / "connections.py"
    environment = {**os.environ, "OPENAI_API_KEY": "sk-stub-0123456789abcdef"}
    done = subprocess.run(
        [sys.executable, str(script), model, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["response"] == 'I added "Buy milk".'
    assert answer["hosts"] == [model.rpartition("/")[2]]


def test_the_kit_is_loaded_when_somebody_chats_and_not_before():
    code = "import sys, shopfloor.serving; print('agents' in sys.modules, 'openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
