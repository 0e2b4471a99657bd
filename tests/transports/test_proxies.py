"""A server behind a proxy: requests of others never get the rights of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from tests.transports.server import run, serving
from tests.transports.team import STATUS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed_hosts", "floor.example"),
        ("allowed_origins", "https://app.example"),
        ("public_url", "https://floor.example"),
        ("trusted_proxies", "127.0.0.1"),
    ],
)
def test_server_for_others_refuses_to_start_without_credentials(tmp_path: Path, name: str, value: str):
    result = run("serve", "--port", "0", cwd=tmp_path, **{name: value})
    assert (result.returncode, result.stdout) == (1, "")
    assert f"Refusing to serve others (setting {name}) without credentials" in result.stderr
    assert "shopfloor agent add NAME" in result.stderr


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Via"])
def test_open_server_rejects_a_request_that_a_proxy_passes_on(tmp_path: Path, header: str):
    with serving(tmp_path) as server:
        assert server.call(STATUS).status_code == 200
        assert server.call(STATUS, headers={header: "127.0.0.1"}).status_code == 401
        assert server.rpc("tools/list", headers={header: "127.0.0.1"}).status_code == 401
        page = httpx2.get(f"{server.url}/", headers={header: "127.0.0.1"}, follow_redirects=False)
        assert (page.status_code, page.headers["location"]) == (303, "/signin?next=/")


def test_public_url_is_used_for_links_cookies_and_metadata(tmp_path: Path):
    json.loads(run("agent", "add", "worker", "--json", cwd=tmp_path).stdout)
    with serving(
        tmp_path,
        public_url="https://floor.example/",
        issuer="https://issuer.example",
        jwks_url="https://issuer.example/keys",
    ) as server:
        link = server.run("link").stdout.strip()
        assert link.startswith("https://floor.example/enter?token=")
        metadata = httpx2.get(f"{server.url}/.well-known/oauth-protected-resource").json()
        assert metadata["resource"] == "https://floor.example/mcp"
        rejected = server.call(STATUS)
        assert "https://floor.example/.well-known/" in rejected.headers["www-authenticate"]

        public = httpx2.get(f"{server.url}/signin", headers={"Host": "floor.example"})
        assert public.status_code == 200
        assert "secure" in public.headers["set-cookie"].lower()
        local = httpx2.get(f"{server.url}/signin")
        assert "secure" not in local.headers["set-cookie"].lower()


def test_only_a_trusted_proxy_says_who_the_client_is(tmp_path: Path):
    run("agent", "add", "worker", "--json", cwd=tmp_path)
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7"}
    with serving(tmp_path) as server:
        page = httpx2.get(f"{server.url}/signin", headers=forwarded)
        assert "secure" not in page.headers["set-cookie"].lower()
    with serving(tmp_path, trusted_proxies="127.0.0.0/8") as server:
        page = httpx2.get(f"{server.url}/signin", headers=forwarded)
        assert "secure" in page.headers["set-cookie"].lower()
