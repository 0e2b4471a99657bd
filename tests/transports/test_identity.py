"""Credentials over every transport: whose they are, when they end, and who can sign them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.transports.server import ERAS, HTTP, Server, bearer, serving, wait_until
from tests.transports.team import LOG_DECISION, STATUS, TRANSPORTS, Team


def _get_status(server: Server, token: str | None) -> int:
    """Return the status that every transport gives a token."""
    statuses = {server.rpc("tools/list", token=token, era=era).status_code for era in ERAS}
    statuses.add(HTTP.get(f"{server.url}/metrics", headers=bearer(token)).status_code)
    [status] = statuses
    assert (server.call(STATUS, token=token).status_code == 401) == (status == 401)
    return status


def _read_signing_key(server: Server) -> bytes:
    """Read the signing key of the server."""
    # The first workspace: other tests of this server add one with a key of its own.
    (key,), *_ = server.rows("SELECT value FROM secret WHERE name = 'user-tokens' ORDER BY workspace")
    return bytes(key)


def _read_claims(team: Team) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(team.tokens["user_a"], options={"verify_signature": False})
    return claims


WRONG_CLAIMS: dict[str, dict[str, Any]] = {
    "an issuer of its own": {"iss": "evil"},
    "no issuer": {"iss": None},
    "no audience": {"aud": None},
    "no owner": {"sub": None},
    "another owner": {"sub": "user_b"},
    "an agent as its owner": {"sub": "supervisor"},
    "an impossible owner": {"sub": "\n"},
    "no id": {"jti": None},
    "an id that was never issued": {"jti": "aaaaaaaaaaaa"},
    "the id of an agent's token": {"jti": "{worker_a}"},
    "SQL as its id": {"jti": "' OR 1=1 --"},
    "an end in the past": {"exp": 1},
    "no end": {"exp": None},
    "a beginning in the future": {"nbf": 4_000_000_000},
    "an issue date in the future": {"iat": 4_000_000_000},
    "a word as its end": {"exp": "never"},
}


@pytest.mark.parametrize("name", WRONG_CLAIMS)
def test_signed_token_with_wrong_claims_is_rejected(either_team: Team, name: str):
    id = either_team.tokens["worker_a"].split("_")[1]
    changed = {
        key: value.replace("{worker_a}", id) if isinstance(value, str) else value
        for key, value in WRONG_CLAIMS[name].items()
    }
    claims = {key: value for key, value in {**_read_claims(either_team), **changed}.items() if value is not None}
    assert _get_status(either_team.server, _sign(claims, _read_signing_key(either_team.server))) == 401


def _sign(claims: dict[str, Any], key: bytes, algorithm: str = "HS256", **header: Any) -> str:
    """Sign a token with any claims."""
    payload = json.dumps(claims).encode()
    token: str = jwt.api_jws.encode(payload, key, algorithm=algorithm, headers={"typ": "JWT", **header})
    return token


HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "a longer digest": ("HS512", {}),
    "a key id that is a path": ("HS256", {"kid": "../../dev/null"}),
    "a key id that is SQL": ("HS256", {"kid": "' UNION SELECT ''"}),
    "a place to fetch the key from": ("HS256", {"jku": "https://evil.example/keys"}),
    "a certificate": ("HS256", {"x5u": "https://evil.example/cert"}),
    "its own key": ("HS256", {"jwk": {"kty": "oct", "k": base64.urlsafe_b64encode(b"x" * 32).decode()}}),
}


@pytest.mark.parametrize("name", HEADERS)
def test_token_header_cannot_choose_the_key_or_algorithm(team: Team, name: str):
    algorithm, header = HEADERS[name]
    assert _get_status(team.server, _sign(_read_claims(team), b"x" * 64, algorithm, **header)) == 401
    assert _get_status(team.server, _sign(_read_claims(team), _read_signing_key(team.server), algorithm, **header)) == (
        200 if algorithm == "HS256" else 401
    )


def test_tampered_token_is_rejected(team: Team):
    header, payload, signature = team.tokens["user_a"].split(".")
    other = base64.urlsafe_b64encode(json.dumps({**_read_claims(team), "sub": "user_b"}).encode()).decode().rstrip("=")
    for token in (
        f"{header}.{other}.{signature}",
        f"{header}.{payload}.{signature[:-4]}AAAA",
        f"{header}.{payload}",
        f"{header}.{payload}.{signature}.{signature}",
        f"{payload}.{header}.{signature}",
        f".{payload}.{signature}",
        f"{header}..{signature}",
    ):
        assert _get_status(team.server, token) == 401
    assert _get_status(team.server, team.tokens["user_a"]) == 200


def test_user_cannot_use_agent_tools(team: Team):
    for claim in (None, "user_a", "worker_a", "supervisor"):
        reply = team.execute(
            "user_a", LOG_DECISION, {"title": "t", "body": "b"}, **({"agentId": claim} if claim else {})
        )
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    for era in ERAS:
        listed = team.server.rpc("tools/list", token=team.tokens["user_a"], era=era).json()["result"]["tools"]
        assert [tool["name"] for tool in listed if tool["name"].startswith("mcp__")] == []
        assert team.ask(era, "user_a", STATUS).code == "PERMISSION_DENIED"


def test_operator_can_act_as_an_agent_and_the_log_names_both(either_team: Team):
    server = either_team.server
    reply = either_team.execute("operator", LOG_DECISION, {"title": "For you", "body": "b"}, agentId="worker_b")
    number = reply.json()["data"]["logId"].removeprefix("log-")
    rows = server.rows(
        "SELECT kind, actor, subject FROM decision WHERE kind <> 'manual' AND reference ="
        f" (SELECT reference FROM decision WHERE id = {number}) ORDER BY id"
    )
    assert rows == [(kind, "operator:operator", "agent:worker_b") for kind in ("invocation", "result")]


def test_token_of_another_workspace_is_rejected(either_team: Team):
    server = either_team.server
    spy = server.cli("agent", "add", f"spy-{time.monotonic_ns()}", "--type", "SUPERVISOR", "--workspace", "other")
    assert _get_status(server, spy["token"]) == 401
    named = either_team.execute("operator", STATUS, agentId=spy["id"])
    assert (named.status_code, named.json()["error"]["code"]) == (404, "AGENT_NOT_FOUND")
    with serving(
        server.folder / "other", database=server.database or f"sqlite://{server.data}/shopfloor.db", workspace="other"
    ) as other:
        assert other.call(STATUS, token=spy["token"]).status_code == 200
        assert _get_status(other, either_team.tokens["supervisor"]) == 401
        assert _get_status(other, either_team.tokens["user_a"]) == 401
        assert _get_status(other, either_team.tokens["operator"]) == 401


def test_token_ends_when_it_expires_or_its_agent_retires(either_team: Team):
    server = either_team.server
    name = f"temp-{time.monotonic_ns()}"
    lasting = server.agent(name)
    short = [
        server.cli("token", "issue", *whose, "--ttl", "2s")["token"]
        for whose in (["--agent", name], ["--user", "user_a"])
    ]
    wait_until(lambda: [server.rpc("tools/list", token=token).status_code for token in short] == [401, 401])
    assert server.call(STATUS, token=lasting).status_code == 200
    server.cli("agent", "retire", name)
    wait_until(lambda: server.call(STATUS, token=lasting).status_code == 401)


def test_first_credential_makes_the_server_require_one_permanently(tmp_path: Path):
    with serving(tmp_path) as server:
        server.agent("worker-123", "WORKER", "--no-token")
        assert server.call(STATUS, agentId="worker-123").json()["data"]["id"] == "worker-123"
        assert server.call(STATUS).json()["data"]["id"] == "local"
        assert server.call(STATUS, token="x").status_code == 401
        assert server.call(STATUS, token=server.operator).status_code == 200
        assert HTTP.get(f"{server.url}/metrics").status_code == 200
        issued = server.cli("token", "issue", "--agent", "worker-123")
        assert _get_status(server, None) == 401
        server.cli("token", "revoke", issued["id"])
        assert _get_status(server, None) == 401
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert HTTP.get(f"{server.url}{path}").status_code == 200
        server.stop()
        server.start()
        assert _get_status(server, None) == 401


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_token_in_the_wrong_place_is_not_stored(team: Team, transport: str):
    token = team.tokens["worker_b"]
    team.ask(transport, "worker_a", token, {"note": token}, headers={"Mcp-Session-Id": token})
    assert token not in team.server.log.read_text()
    assert all(token.encode() not in found.read_bytes() for found in team.server.data.iterdir())


def test_operator_token_is_readable_only_by_its_owner(team: Team):
    file = team.server.data / "operator.token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(team.server.data.stat().st_mode) == 0o700
    found = list(team.server.data.iterdir())
    assert {each.stat().st_uid for each in found} == {os.geteuid()}
    assert [each for each in found if team.tokens["operator"].encode() in each.read_bytes()] == [file]
    tokens = [token for token in team.tokens.values() if token]
    assert [line for line in team.server.log.read_text().splitlines() if any(token in line for token in tokens)] == []


class Issuer:
    """An issuer that signs user tokens and publishes its key, which a test can withdraw."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.published = True
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if outer.published else 500)
                self.end_headers()
                self.wfile.write(json.dumps({"keys": [outer.public_jwk]}).encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def public_jwk(self) -> dict[str, Any]:
        jwk: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {**jwk, "kid": "first", "use": "sig", "alg": "RS256"}

    @property
    def public_pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_key().public_bytes(serialization.Encoding.PEM, form)

    def sign(self, key: Any = None, algorithm: str = "RS256", kid: str | None = "first", **claims: Any) -> str:
        standard = {"iss": self.url, "aud": "shopfloor", "sub": "ann@example", "exp": int(time.time()) + 600}
        kept = {name: value for name, value in {**standard, **claims}.items() if value is not None}
        return jwt.encode(kept, key or self.key, algorithm, headers={"kid": kid} if kid else {})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.server.shutdown()


@pytest.fixture(scope="module")
def issuer_server(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that accepts tokens of the issuer."""
    folder = tmp_path_factory.mktemp("trusting")
    with serving(folder, issuer=issuer.url, jwks_url=f"{issuer.url}/keys") as server:
        yield server


def test_server_with_an_issuer_requires_credentials_and_names_the_issuer(issuer_server: Server, issuer: Issuer):
    metadata = f"{issuer_server.url}/.well-known/oauth-protected-resource"
    reply = issuer_server.rpc("tools/list")
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"] == f'Bearer realm="shopfloor", resource_metadata="{metadata}"'
    for path in (metadata, f"{metadata}/mcp"):
        assert HTTP.get(path).json() == {
            "resource": f"{issuer_server.url}/mcp",
            "authorization_servers": [issuer.url],
            "bearer_methods_supported": ["header"],
        }
    assert HTTP.get(f"{issuer_server.url}/.well-known/openid-configuration").status_code == 404


def test_only_tokens_signed_by_the_issuer_are_accepted(issuer_server: Server, issuer: Issuer):
    assert _get_status(issuer_server, issuer.sign()) == 200
    assert _get_status(issuer_server, issuer.sign(kid=None)) == 200
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for token in (
        issuer.sign(stranger),
        issuer.sign(kid="second"),
        issuer.sign(aud="another"),
        issuer.sign(aud=None),
        issuer.sign(sub=None),
        issuer.sign(sub=""),
        issuer.sign(exp=1),
        issuer.sign(exp=None),
        issuer.sign(iss="https://evil.example"),
        issuer.sign(iss="shopfloor"),
        issuer.sign(algorithm="RS384"),
        issuer.sign(algorithm="PS256"),
        _sign_with_public_key(issuer),
    ):
        assert _get_status(issuer_server, token) == 401


def _sign_with_public_key(issuer: Issuer) -> str:
    """Sign with the published key as a shared secret. The library refuses this, so do it by hand."""
    payload = issuer.sign().split(".")[1]
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "first"}).encode()).decode().rstrip("=")
    digest = hmac.new(issuer.public_pem, f"{header}.{payload}".encode(), hashlib.sha256).digest()
    return f"{header}.{payload}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def test_unreachable_issuer_is_a_transient_failure(issuer: Issuer, tmp_path: Path):
    with serving(tmp_path, issuer=issuer.url, jwks_url="http://127.0.0.1:9/keys") as server:
        for reply in (server.call(STATUS, token=issuer.sign()), server.rpc("tools/list", token=issuer.sign())):
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert server.call(STATUS, token=server.operator).status_code == 200


def test_rotated_operator_token_and_signing_key_replace_the_old_ones_in_a_running_server(tmp_path: Path):
    with serving(tmp_path) as server:
        user, old = server.user("ann"), server.operator
        assert _get_status(server, old) == 200
        assert server.cli("admin", "rotate", "operator-token") == {"rotated": "operator-token", "revoked": 1}
        assert (_get_status(server, old), _get_status(server, server.operator)) == (401, 200)
        assert [token["kind"] for token in server.cli("token", "list")].count("operator") == 2

        assert server.rpc("tools/list", token=user).status_code == 200
        assert server.cli("admin", "rotate", "signing-key") == {"rotated": "signing-key", "revoked": 1}
        assert server.rpc("tools/list", token=user).status_code == 401
        renewed = server.cli("token", "issue", "--user", "ann")["token"]
        assert server.rpc("tools/list", token=renewed).status_code == 200
