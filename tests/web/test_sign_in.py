"""Signing in: nobody learns who exists, nobody guesses for long, and no other site sends our forms."""

from __future__ import annotations

import statistics
import time

import httpx2
import pytest
from argon2 import PasswordHasher

from shopfloor.domain.actors import OPERATOR
from shopfloor.errors import RateLimited, Unauthenticated
from shopfloor.gateways import passwords
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases.sessions import TRIES, TRIES_PER_ADDRESS, TRIES_PER_NAME, Tries
from tests.serving import served
from tests.web.support import PASSWORD, sign_in, token_of


def test_pages_send_visitors_to_sign_in_and_back(visitor):
    away = visitor.get("/chat")
    assert (away.status_code, away.headers["location"]) == (303, "/signin?next=/chat")
    page = visitor.get("/signin?next=/chat").text
    form = {"csrf": token_of(page), "name": "customer", "password": PASSWORD, "next": "/chat"}
    there = visitor.post("/signin", data=form)
    assert (there.status_code, there.headers["location"]) == (303, "/chat")
    assert visitor.get("/chat").status_code == 200


def test_nobody_is_sent_elsewhere_after_signing_in(visitor):
    for after in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        form = {"csrf": token_of(visitor.get("/signin").text), "name": "customer", "password": PASSWORD, "next": after}
        assert visitor.post("/signin", data=form).headers["location"] == "/", after


def test_the_session_cookie_is_out_of_reach(visitor):
    cookies = sign_in(visitor).headers.get_list("set-cookie")
    session = next(cookie for cookie in cookies if "=sfp_" in cookie)
    assert "HttpOnly" in session
    assert "SameSite=strict" in session
    assert "Path=/" in session


def test_signing_out_ends_the_session_for_good(visitor):
    sign_in(visitor)
    page = visitor.get("/todo")
    kept = dict(visitor.cookies)
    visitor.post("/signout", data={"csrf": token_of(page.text)})
    visitor.cookies.update(kept)
    assert visitor.get("/todo").status_code == 303


def test_a_new_password_and_a_removal_end_sessions(server, visitor):
    sign_in(visitor)
    server.floor.set_password("customer", "another good password")
    assert visitor.get("/todo").status_code == 303
    sign_in(visitor, password="another good password")
    assert visitor.get("/todo").status_code == 200
    server.floor.remove_user("customer")
    assert visitor.get("/todo").status_code == 303


def test_a_session_does_not_close_an_open_floor(tmp_path):
    with Shopfloor(Settings(project=tmp_path)) as floor:
        floor.floor.sessions.open(OPERATOR)
        assert not floor.floor.identity.needs_credential()


def test_the_operator_can_have_a_session_too(server, visitor):
    token = server.floor.floor.sessions.open(OPERATOR)
    visitor.get("/signin")
    name = next(name for name in visitor.cookies if "visitor" in name).replace("_visitor", "")
    visitor.cookies.set(name, token)
    assert '<span class="name" title="Signed in as operator">' in visitor.get("/todo").text


def test_every_wrong_sign_in_reads_the_same(server, visitor):
    server.floor.add_user("no-password")
    server.floor.add_user("gone")
    server.floor.set_password("gone", PASSWORD)
    server.floor.remove_user("gone")
    answers = []
    for name in ["customer", "nobody", "no-password", "gone", "x" * 300, "a\x00b"]:
        answer = sign_in(visitor, name, "wrong password")
        shown = answer.text.replace(name, "NAME").replace(token_of(answer.text), "TOKEN")
        answers.append((answer.status_code, shown if len(name) < 200 and "\x00" not in name else ""))
    assert {status for status, _ in answers} == {401}
    assert len({text for _, text in answers[:4]}) == 1


def test_somebody_who_does_not_exist_takes_as_long(server, monkeypatch):
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher())
    passwords._nobodys.cache_clear()
    server.floor.set_password("customer", PASSWORD)
    sessions = server.floor.floor.sessions
    passwords.fits("warm up", None)

    def took(name: str) -> float:
        times = []
        for number in range(3):
            begun = time.process_time()
            with pytest.raises(Exception, match="wrong"):
                sessions.sign_in(name, "wrong password", f"address {name} {number}")
            times.append(time.process_time() - begun)
        return statistics.median(times)

    known, unknown = took("customer"), took("nobody")
    assert 0.4 < known / unknown < 2.5


def test_guessing_is_stopped_for_names_that_exist_and_for_others(visitor):
    for name in ("customer", "nobody"):
        for _ in range(TRIES):
            assert sign_in(visitor, name, "wrong password").status_code == 401
        stopped = sign_in(visitor, name, PASSWORD)
        assert stopped.status_code == 429
        assert 0 < int(stopped.headers["Retry-After"]) <= 300


def test_who_guesses_elsewhere_locks_nobody_out(server, visitor):
    for _ in range(TRIES):
        with pytest.raises(Unauthenticated):
            server.floor.floor.sessions.sign_in("customer", "wrong password", "192.0.2.1")
    with pytest.raises(RateLimited):
        server.floor.floor.sessions.sign_in("customer", PASSWORD, "192.0.2.1")
    assert sign_in(visitor).status_code == 303


def test_guessing_many_names_is_stopped_by_address():
    tries = Tries(1000)
    for number in range(TRIES_PER_ADDRESS):
        tries.count({f"name {number}": TRIES_PER_NAME, "address here": TRIES_PER_ADDRESS}, number)
    with pytest.raises(RateLimited):
        tries.count({"name new": TRIES_PER_NAME, "address here": TRIES_PER_ADDRESS}, 999)
    tries.count({"name new": TRIES_PER_NAME, "address there": TRIES_PER_ADDRESS}, 999)
    tries.count({"name new": TRIES_PER_NAME, "address here": TRIES_PER_ADDRESS}, 1001)


def test_signing_in_right_is_never_held_against_anybody(visitor):
    for _ in range(TRIES + 1):
        assert sign_in(visitor).status_code == 303


def test_a_form_without_its_token_is_refused(server, visitor):
    sign_in(visitor)
    form = {"action": "add", "title": "Planted", "name": "customer", "password": PASSWORD}
    for path in ("/signin", "/signout", "/todo"):
        for token in (None, "", "wrong"):
            answer = visitor.post(path, data=form if token is None else {**form, "csrf": token})
            assert answer.status_code == 403, (path, token)
            assert visitor.get("/todo").status_code == 200, "still signed in"
    assert server.titles("customer") == []


def test_a_form_token_is_one_visitors_own(server, visitor):
    stolen = token_of(visitor.get("/signin").text)
    sign_in(visitor)
    answer = visitor.post("/todo", data={"csrf": stolen, "action": "add", "title": "Planted"})
    assert answer.status_code == 403, "a token from before the sign-in does not count after it"


def test_other_sites_reach_no_form(server, visitor):
    sign_in(visitor)
    form = {"csrf": token_of(visitor.get("/todo").text), "action": "add", "title": "Planted"}
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert visitor.post("/todo", data=form, headers=headers).status_code == 403
    assert server.titles("customer") == []


def test_the_chat_takes_a_session_only_with_the_token_of_its_page(visitor):
    sign_in(visitor)
    assert visitor.post("/api/chat", json={"message": "hello"}).status_code == 403
    token = token_of(visitor.get("/chat").text)
    said = visitor.post("/api/chat", json={"message": "hello"}, headers={"X-CSRF-Token": token})
    assert said.json()["error"] == "CHAT_OFF"
    assert visitor.get("/api/conversations").json() == {"success": True, "conversations": []}


def test_where_an_issuer_signs_the_tokens_there_is_no_password_to_give(tmp_path):
    settings = Settings(project=tmp_path, port=0, issuer="https://id.example", jwks_url="https://id.example/keys")
    with Shopfloor(settings) as floor, served(floor) as server:
        page = httpx2.get(f"{server.url}/signin").text
    assert "password" in page
    assert "<form" not in page


def test_passwords_are_kept_as_argon2_and_have_a_least_length(server):
    kept = server.floor.floor.look(lambda work: work.people.password_hash("customer"))
    assert kept.startswith("$argon2id$")
    with pytest.raises(Exception, match="10 to 1000"):
        server.floor.set_password("customer", "short")
