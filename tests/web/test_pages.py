"""The pages as they are served: headers, forms without scripts, contrast of colours."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

import shopfloor.web
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.serving import serve_in_thread
from tests.web.support import find_form_token, sign_in

WEB = Path(shopfloor.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))


def test_every_page_has_security_headers(visitor):
    sign_in(visitor)
    for path in ("/signin", "/todo", "/chat", "/todo/list", "/todo?filter=%27%3Cb%3E"):
        answer = visitor.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: str(file.relative_to(WEB)))
def test_no_template_has_inline_script_or_style(file):
    html = file.read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|\|\s*safe", html)
    assert not re.search(r"<script(?![^>]*\ssrc=)", html)
    assert not re.search(r"https?://", html)


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: str(file.relative_to(WEB)))
def test_every_field_has_a_label(file):
    unlabelled = re.sub(r"<label.*?</label>", "", file.read_text(), flags=re.DOTALL)
    assert not re.search(r"<(?:input(?![^>]*hidden)|textarea|select)", unlabelled)


def test_forms_work_without_scripts(server, visitor):
    sign_in(visitor)
    csrf = find_form_token(visitor.get("/todo").text)

    def act(**form: str) -> httpx2.Response:
        return visitor.post("/todo", data={"csrf": csrf, **form})

    due = {"dueAt": "2026-12-24T18:00", "dueZone": "Europe/Berlin", "priority": "0"}
    assert act(action="add", title="Buy milk", **due).status_code == 303
    shown = visitor.get("/todo").text
    assert "Buy milk" in shown
    assert "2026-12-24 18:00</time> Europe/Berlin" in shown
    assert "Critical" in shown
    act(action="complete", taskId="1")
    assert server.tasks("customer")[0]["completed"] is True
    act(action="reopen", taskId="1")
    act(action="change", taskId="1", title="Buy oat milk", description="", dueAt="", dueZone="UTC", priority="2")
    expected = {"id": 1, "title": "Buy oat milk", "description": None, "completed": False}
    assert server.tasks("customer") == [expected]
    act(action="delete", taskId="1")
    assert server.tasks("customer") == []
    assert "can be restored until" in visitor.get("/todo").text
    act(action="restore", taskId="1")
    assert server.tasks("customer") == [expected]


INVALID_FORMS = [
    ({"action": "add", "title": " "}, 422, "Title must be between 1 and 200 characters"),
    ({"action": "add", "title": "x", "dueAt": "soon", "dueZone": "UTC"}, 422, "A due date is a date"),
    ({"action": "add", "title": "x", "dueAt": "2026-01-01T10:00", "dueZone": "Moon/Base"}, 422, "A due date is a date"),
    ({"action": "complete", "taskId": "99"}, 404, "Task 99 not found"),
    ({"action": "complete", "taskId": "x"}, 422, "taskId must be a positive integer"),
    ({"action": "explode"}, 422, "Unknown action"),
    ({}, 422, "Unknown action"),
]


def test_invalid_forms_show_the_error_on_the_page(visitor):
    sign_in(visitor)
    csrf = find_form_token(visitor.get("/todo").text)
    for form, status, text in INVALID_FORMS:
        answer = visitor.post("/todo", data={"csrf": csrf, **form})
        assert (answer.status_code, text in answer.text) == (status, True), form


def test_another_users_tasks_are_not_found(server, visitor):
    server.shopfloor.call("todo_direct", "add_task", {"user_id": "guest", "title": "Guest's secret"})
    sign_in(visitor)
    csrf = find_form_token(visitor.get("/todo").text)
    for action in ("complete", "reopen", "change", "delete", "restore"):
        answer = visitor.post("/todo", data={"csrf": csrf, "action": action, "taskId": "1", "title": "Stolen"})
        assert answer.status_code == 404
        assert "secret" not in answer.text
    assert server.titles("guest") == ["Guest's secret"]


def test_forms_are_logged_like_other_calls(server, visitor):
    sign_in(visitor)
    visitor.post(
        "/todo", data={"csrf": find_form_token(visitor.get("/todo").text), "action": "add", "title": "Buy milk"}
    )
    server.shopfloor.engine.database.store.flush()
    rows = server.shopfloor.engine.database.store.read(
        lambda connection: connection.fetch_all("SELECT kind, subject FROM decision WHERE tool = 'add' ORDER BY id")
    )
    assert rows == [("invocation", "user:customer"), ("result", "user:customer")]


def test_an_open_server_shows_the_list_of_local(tmp_path):
    with Shopfloor(Settings(project=tmp_path, port=0)) as shopfloor, serve_in_thread(shopfloor) as server:
        with httpx2.Client(base_url=server.url) as visitor:
            page = visitor.get("/todo")
            assert "No tasks to do.</p>" in page.text
            assert ">is:ui</a>" in visitor.get("/activity/calls").text
            assert "There is nothing to search yet:" in visitor.get("/knowledge?q=zz").text
            added = {"csrf": find_form_token(page.text), "action": "add", "title": "Buy milk"}
            assert visitor.post("/todo", data=added).status_code == 303
            # Fault F38: the operator's own list was that of a user called local.
            assert 'href="/lists/local">yours</a>' in visitor.get("/tasks").text
            assert "No members yet." in visitor.get("/settings/access").text
        assert server.titles("local") == ["Buy milk"]


def test_a_long_list_continues_on_the_next_page(server, visitor):
    for number in range(201):
        server.shopfloor.call("todo_direct", "add_task", {"user_id": "customer", "title": f"Task {number}"})
    sign_in(visitor)
    page = visitor.get("/todo").text
    assert "201 tasks to do" in page
    older = re.search(r'href="(/todo\?filter=active&amp;cursor=\d+)"', page)
    assert older
    assert "Task 0<" in visitor.get(older[1].replace("&amp;", "&")).text


def test_browsers_cache_static_files_by_version(visitor):
    page = visitor.get("/signin").text
    found = re.search(r'href="(/static/style.css\?v=(\w+))"', page)
    assert found
    answer = visitor.get(found[1])
    assert "immutable" in answer.headers["Cache-Control"]
    assert visitor.get("/static/style.css").headers["Cache-Control"] == "no-cache"
    again = visitor.get("/static/style.css", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    assert visitor.get("/static/..%2froutes.py").status_code == 404


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast_in_both_schemes(scheme):
    css = (WEB / "static" / "style.css").read_text()
    colours = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block)) for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    ]
    known = colours[scheme]
    pairs = [
        (ink, ground)
        for ink in ("text", "secondary", "accent", "danger", "success")
        for ground in ("background", "surface", "highlight")
        if (ink, ground) not in {("danger", "highlight"), ("success", "highlight"), ("accent", "highlight")}
    ]
    for ink, ground in [*pairs, ("on-accent", "accent")]:
        assert _contrast(known[ink], known[ground]) >= 4.5, (ink, ground)


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_chat_that_is_switched_off_says_so_before_anything_is_sent(server, visitor, monkeypatch):
    sign_in(visitor)
    page = visitor.get("/chat").text
    assert "The chat is switched off: set " in page
    assert '<form id="compose" class="row" hidden>' in page
