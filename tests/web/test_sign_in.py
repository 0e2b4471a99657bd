"""Signing in: names cannot be probed, guessing is limited, and other sites cannot send our forms."""

from __future__ import annotations

import statistics
import time

import httpx2
import pytest
from argon2 import PasswordHasher

from shopfloor.errors import RateLimited, Unauthenticated
from shopfloor.gateways import passwords
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases.page_sessions import MAX_ATTEMPTS, MAX_ATTEMPTS_PER_ADDRESS, MAX_ATTEMPTS_PER_NAME, Attempts
from shopfloor.web.routes import Pages
from shopfloor.web.sessions import PageSessions
from tests.operator_access import read_as_operator
from tests.serving import serve_in_thread
from tests.web.support import PASSWORD, find_form_token, sign_in


def test_pages_redirect_to_sign_in_and_back(visitor):
    run_in_thread = visitor.get("/chat")
    assert (run_in_thread.status_code, run_in_thread.headers["location"]) == (303, "/signin?next=/chat")
    page = visitor.get("/signin?next=/chat").text
    form = {"csrf": find_form_token(page), "name": "customer", "password": PASSWORD, "next": "/chat"}
    there = visitor.post("/signin", data=form)
    assert (there.status_code, there.headers["location"]) == (303, "/chat")
    assert visitor.get("/chat").status_code == 200


def test_sign_in_redirects_only_to_this_server(visitor):
    for after in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        form = {
            "csrf": find_form_token(visitor.get("/signin").text),
            "name": "customer",
            "password": PASSWORD,
            "next": after,
        }
        assert visitor.post("/signin", data=form).headers["location"] == "/", after


def test_the_session_cookie_is_http_only_and_same_site(visitor):
    cookies = sign_in(visitor).headers.get_list("set-cookie")
    session = next(cookie for cookie in cookies if "=sfp_" in cookie)
    assert "HttpOnly" in session
    assert "SameSite=strict" in session
    assert "Path=/" in session


def test_a_session_is_invalid_after_sign_out(visitor):
    sign_in(visitor)
    page = visitor.get("/todo")
    kept = dict(visitor.cookies)
    visitor.post("/signout", data={"csrf": find_form_token(page.text)})
    visitor.cookies.update(kept)
    assert visitor.get("/todo").status_code == 303


def test_a_new_password_and_a_removal_end_sessions(server, visitor):
    sign_in(visitor)
    server.shopfloor.set_password("customer", "another good password")
    assert visitor.get("/todo").status_code == 303
    sign_in(visitor, password="another good password")
    assert visitor.get("/todo").status_code == 200
    server.shopfloor.remove_user("customer")
    assert visitor.get("/todo").status_code == 303


def test_a_session_does_not_make_the_server_require_credentials(tmp_path):
    with Shopfloor(Settings(project=tmp_path)) as shopfloor:
        link = shopfloor.create_link()["token"]
        shopfloor.call("desk", "link_redeem", {"token": link})
        assert not shopfloor.engine.identity.needs_credential()


def test_a_rejected_form_comes_back_with_what_was_typed(server, visitor):
    """Send a form that is out of date, and one after the session ended, both without scripts."""
    with httpx2.Client(base_url=server.url, timeout=300, follow_redirects=True) as operator:
        operator.get(f"/enter?token={server.shopfloor.create_link()['token']}")
        form = {"csrf": "stale", "back": "/tasks", "title": "Ten minutes <of> work", "fixed": "epic", "epic": "1"}
        answer = operator.post("/act/task_create", data=form)
        assert answer.status_code == 403
        assert "Ten minutes &lt;of&gt; work</textarea>" in answer.text
        assert '<input type="hidden" name="epic" value="1">' in answer.text
        assert '<a class="button" href="/tasks">Back</a>' in answer.text
        retry = {**form, "csrf": find_form_token(answer.text), "epic": ""}
        assert str(operator.post("/act/task_create", data=retry).url) == f"{server.url}/tasks"
    answer = visitor.post("/act/task_create", data=form)
    assert answer.status_code == 401
    assert "Ten minutes &lt;of&gt; work</textarea>" in answer.text
    assert "shopfloor link" in answer.text
    assert "/signin?next=/act" not in answer.text


def test_a_rejected_form_of_the_todo_list_comes_back_with_what_was_typed(visitor):
    fixed = {"action": "add", "fixed": "action filter taskId", "filter": "active", "back": "/todo?filter=active"}
    form = {**fixed, "title": "Buy milk", "dueAt": "2026-01-01T10:00", "dueZone": "Moon/Base"}
    signed_out = visitor.post("/todo", data={**form, "csrf": "stale"})
    sign_in(visitor)
    rejected = visitor.post("/todo", data={**form, "csrf": find_form_token(visitor.get("/todo").text)})
    assert (signed_out.status_code, rejected.status_code) == (401, 422)
    for answer in (signed_out, rejected):
        assert "\nBuy milk</textarea>" in answer.text
        assert '<input type="hidden" name="action" value="add">' in answer.text
        assert '<a class="button" href="/todo?filter=active">Back</a>' in answer.text
    again = {**form, "csrf": find_form_token(rejected.text), "dueZone": "UTC"}
    assert visitor.post("/todo", data=again).headers["location"] == "/todo?filter=active"


def test_who_issues_the_first_credential_on_a_page_stays_signed_in(shopfloor):
    """Create the first agent on an open server, as a new operator does, and continue."""
    with serve_in_thread(shopfloor) as server, httpx2.Client(base_url=server.url, timeout=300) as operator:
        assert "open to its own machine" in operator.get("/settings/access").text
        page = operator.get("/agents")
        assert "open to its own machine" in page.text
        form = {"csrf": find_form_token(page.text), "name": "w2", "type": "WORKER", "back": "/agents"}
        created = operator.post("/act/agent_create", data=form)
        assert created.status_code == 200
        assert "API token for w2" in created.text
        assert "Every caller now needs a token" in created.text
        assert "claude mcp add" in created.text
        assert httpx2.get(f"{server.url}/agents").headers["location"].startswith("/signin")
        for path in ("/settings/access", "/agents"):
            again = operator.get(path)
            assert again.status_code == 200
            assert "open to its own machine" not in again.text
        # The forms of the page with the token belong to the new session.
        form = {"csrf": find_form_token(created.text), "name": "w3", "type": "WORKER"}
        second = operator.post("/act/agent_create", data=form)
        assert "API token for w3" in second.text
        assert "Every caller now needs a token" not in second.text
    assert [token["kind"] for token in shopfloor.call("desk", "token_list", {})["tokens"]].count("agent") == 2


def test_the_sign_in_page_names_the_command_that_prints_a_link(visitor):
    assert "<code>shopfloor link</code>" in visitor.get("/signin").text


def test_an_unknown_address_is_a_page_for_browsers_and_json_for_programs(visitor):
    page = visitor.get("/nonsense", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert "Page not found: /nonsense" in page.text
    assert visitor.get("/nonsense").json()["error"]["code"] == "RESOURCE_NOT_FOUND"


def test_a_page_that_fails_is_a_page_with_the_way_back(server, visitor, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("a secret of the implementation")

    sign_in(visitor)
    monkeypatch.setattr(Pages, "_load_list", fail)
    page = visitor.get("/todo", headers={"Accept": "text/html"})
    assert page.status_code == 500
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "An internal error occurred." in page.text
    assert '<a class="button" href="/">Back</a>' in page.text
    answer = visitor.get("/todo", headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert "secret" not in page.text + answer.text


def test_addresses_of_earlier_versions_redirect_with_their_query(visitor):
    for old, new in {
        "/floor": "/home",
        "/boards": "/tasks",
        "/log?agent=x": "/activity/calls?agent=x",
        "/log/ref-1": "/activity/ref-1",
        "/context?q=a+b": "/knowledge?q=a+b",
        "/access": "/settings/access",
    }.items():
        answer = visitor.get(old)
        assert (answer.status_code, answer.headers["location"]) == (308, new)


def test_the_operator_can_have_a_session(server, visitor):
    link = server.shopfloor.create_link()["token"]
    token = server.shopfloor.call("desk", "link_redeem", {"token": link})["token"]
    visitor.get("/signin")
    name = next(name for name in visitor.cookies if "visitor" in name).replace("_visitor", "")
    visitor.cookies.set(name, token)
    assert '<span class="name">operator</span>' in visitor.get("/todo").text


def test_every_failed_sign_in_has_the_same_response(server, visitor):
    server.shopfloor.add_user("no-password")
    server.shopfloor.add_user("gone")
    server.shopfloor.set_password("gone", PASSWORD)
    server.shopfloor.remove_user("gone")
    answers = []
    for name in ["customer", "unknown", "no-password", "gone", "x" * 300, "a\x00b"]:
        answer = sign_in(visitor, name, "wrong password")
        shown = answer.text.replace(name, "NAME").replace(find_form_token(answer.text), "TOKEN")
        answers.append((answer.status_code, shown if len(name) < 200 and "\x00" not in name else ""))
    assert {status for status, _ in answers} == {401}
    assert len({text for _, text in answers[:4]}) == 1


def test_an_unknown_user_takes_as_long_as_a_wrong_password(server, monkeypatch):
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher())
    passwords._dummy_hash.cache_clear()
    server.shopfloor.set_password("customer", PASSWORD)
    sessions = PageSessions(server.shopfloor.engine)
    passwords.verify_password("warm up", None)

    def measure_sign_in(name: str) -> float:
        times = []
        for number in range(3):
            start = time.process_time()
            with pytest.raises(Exception, match="wrong"):
                sessions.open_session(name, "wrong password", f"address {name} {number}")
            times.append(time.process_time() - start)
        return statistics.median(times)

    known, unknown = measure_sign_in("customer"), measure_sign_in("unknown")
    assert 0.4 < known / unknown < 2.5


def test_guessing_is_limited_for_known_and_unknown_names(visitor):
    for name in ("customer", "unknown"):
        for _ in range(MAX_ATTEMPTS):
            assert sign_in(visitor, name, "wrong password").status_code == 401
        limited = sign_in(visitor, name, PASSWORD)
        assert limited.status_code == 429
        assert 0 < int(limited.headers["Retry-After"]) <= 300


def test_guessing_from_one_address_does_not_lock_out_another(server, visitor):
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Unauthenticated):
            PageSessions(server.shopfloor.engine).open_session("customer", "wrong password", "192.0.2.1")
    with pytest.raises(RateLimited):
        PageSessions(server.shopfloor.engine).open_session("customer", PASSWORD, "192.0.2.1")
    assert sign_in(visitor).status_code == 303


def test_guessing_many_names_is_limited_by_address():
    attempts = Attempts(1000)
    for number in range(MAX_ATTEMPTS_PER_ADDRESS):
        attempts.count({f"name {number}": MAX_ATTEMPTS_PER_NAME, "address here": MAX_ATTEMPTS_PER_ADDRESS}, number)
    with pytest.raises(RateLimited):
        attempts.count({"name new": MAX_ATTEMPTS_PER_NAME, "address here": MAX_ATTEMPTS_PER_ADDRESS}, 999)
    attempts.count({"name new": MAX_ATTEMPTS_PER_NAME, "address there": MAX_ATTEMPTS_PER_ADDRESS}, 999)
    attempts.count({"name new": MAX_ATTEMPTS_PER_NAME, "address here": MAX_ATTEMPTS_PER_ADDRESS}, 1001)


def test_successful_sign_ins_are_not_limited(visitor):
    for _ in range(MAX_ATTEMPTS + 1):
        assert sign_in(visitor).status_code == 303


def test_a_form_without_its_token_is_rejected(server, visitor):
    sign_in(visitor)
    form = {"action": "add", "title": "Planted", "name": "customer", "password": PASSWORD}
    for path in ("/signin", "/signout", "/todo"):
        for token in (None, "", "wrong"):
            answer = visitor.post(path, data=form if token is None else {**form, "csrf": token})
            assert answer.status_code == 403, (path, token)
            assert visitor.get("/todo").status_code == 200, "still signed in"
    assert server.titles("customer") == []


def test_a_form_token_from_before_the_sign_in_is_rejected(server, visitor):
    stolen = find_form_token(visitor.get("/signin").text)
    sign_in(visitor)
    answer = visitor.post("/todo", data={"csrf": stolen, "action": "add", "title": "Planted"})
    assert answer.status_code == 403, "a token from before the sign-in does not count after it"


def test_forms_from_other_sites_are_rejected(server, visitor):
    sign_in(visitor)
    form = {"csrf": find_form_token(visitor.get("/todo").text), "action": "add", "title": "Planted"}
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert visitor.post("/todo", data=form, headers=headers).status_code == 403
    assert server.titles("customer") == []


def test_the_chat_accepts_a_session_only_with_a_form_token(visitor):
    sign_in(visitor)
    assert visitor.post("/api/chat", json={"message": "hello"}).status_code == 403
    token = find_form_token(visitor.get("/chat").text)
    response = visitor.post("/api/chat", json={"message": "hello"}, headers={"X-CSRF-Token": token})
    assert response.json()["error"] == "CHAT_OFF"
    assert visitor.get("/api/conversations").json() == {"success": True, "conversations": []}


def test_password_sign_in_is_off_with_an_external_issuer(tmp_path):
    settings = Settings(project=tmp_path, port=0, issuer="https://id.example", jwks_url="https://id.example/keys")
    with Shopfloor(settings) as shopfloor, serve_in_thread(shopfloor) as server:
        page = httpx2.get(f"{server.url}/signin").text
    assert "password" in page
    assert "<form" not in page


def test_passwords_are_stored_as_argon2_and_have_a_minimum_length(server):
    kept = read_as_operator(server.shopfloor, lambda uow: uow.users.find_password_hash("customer"))
    assert kept is not None
    assert kept.startswith("$argon2id$")
    with pytest.raises(Exception, match="10 to 1000"):
        server.shopfloor.set_password("customer", "short")
