"""Users present a JWT signed with the server's key or by a configured issuer. The key fixes the algorithm."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import DAY, SECOND
from shopfloor.gateways import jwts
from shopfloor.gateways.http_client import RequestFailed
from shopfloor.toolkit import Credential
from shopfloor.usecases import todos
from tests.workbench import wait_until

INVALID = "The token is not valid"
REVOKED = "The token is not valid, has expired or was revoked"
ISSUER = "https://id.example"


@pytest.fixture
def database(tmp_path):
    """Use SQLite only: cryptography does not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def identify_caller(shopfloor, token):
    """Return the principal of the token, or the message of the rejection."""
    answer = shopfloor.ask("look", token=token)
    return answer.record.actor.key if answer.error is None else answer.error.message


def encode_part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.fixture
def guest(shopfloor):
    return shopfloor.seed_user("guest")


@pytest.fixture
def key(shopfloor, guest):
    ((value,),) = shopfloor.rows("SELECT value FROM secret WHERE name = 'user-tokens'")
    return bytes(value)


@pytest.fixture
def claims(key, guest):
    return jwt.decode(guest, key, algorithms=["HS256"], audience="shopfloor")


def test_user_token_has_issuer_subject_audience_and_expiry(shopfloor, claims):
    (issued,) = shopfloor.read(lambda uow: uow.tokens.list_page(10, ""))
    assert claims == {
        "iss": "shopfloor",
        "aud": "shopfloor",
        "sub": "guest",
        "jti": issued.id,
        "iat": issued.created_at // SECOND,
        "exp": -(-issued.expires_at // SECOND),
    }
    assert issued.expires_at - issued.created_at == 30 * DAY
    assert issued.digest is None


def test_user_token_is_accepted(shopfloor, guest):
    assert identify_caller(shopfloor, guest) == "user:guest"


@pytest.mark.parametrize("spelling", ["none", "None", "NONE", "nOnE"])
@pytest.mark.parametrize("signature", ["", "c2ln"])
def test_unsigned_token_is_rejected_in_every_spelling(shopfloor, claims, spelling, signature):
    token = f"{encode_part({'alg': spelling, 'typ': 'JWT'})}.{encode_part(claims)}.{signature}"
    assert identify_caller(shopfloor, token) == INVALID


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_other_algorithm_is_rejected_even_with_the_right_key(shopfloor, key, claims, algorithm):
    assert identify_caller(shopfloor, jwt.encode(claims, key * 2, algorithm=algorithm)) == INVALID


def test_token_signed_with_a_key_pair_is_rejected_by_the_servers_own_key(shopfloor, claims, key_pairs):
    assert identify_caller(shopfloor, jwt.encode(claims, key_pairs["RS256"], algorithm="RS256")) == INVALID


def test_token_signed_with_another_key_is_rejected(shopfloor, claims):
    assert identify_caller(shopfloor, jwt.encode(claims, b"0" * 32, algorithm="HS256")) == INVALID


@pytest.mark.parametrize(
    "change",
    [
        {"aud": "another-service"},
        {"aud": ["another-service"]},
        {"iss": "https://evil.example"},
        {"iss": ["shopfloor"]},
        {"exp": 1},
        {"exp": "tomorrow"},
        {"nbf": 4_000_000_000},
        {"sub": 5},
        {"jti": 5},
        {"jti": ["x"]},
    ],
)
def test_invalid_claims_are_rejected(shopfloor, key, claims, change):
    token = jwt.api_jws.encode(json.dumps(claims | change).encode(), key, algorithm="HS256")
    assert identify_caller(shopfloor, token) == INVALID


@pytest.mark.parametrize("claim", ["iss", "aud", "sub", "exp", "jti"])
def test_missing_claim_is_rejected(shopfloor, key, claims, claim):
    del claims[claim]
    assert identify_caller(shopfloor, jwt.encode(claims, key, algorithm="HS256")) == INVALID


def test_modified_token_is_rejected(shopfloor, guest, claims):
    head, _, signature = guest.split(".")
    assert identify_caller(shopfloor, f"{head}.{encode_part(claims | {'sub': 'boss'})}.{signature}") == INVALID
    assert identify_caller(shopfloor, f"{head}.{encode_part([])}.{signature}") == INVALID
    assert identify_caller(shopfloor, f"{head}.{signature}") == INVALID


@pytest.mark.parametrize("change", [{"jti": "abcdefghjkmn"}, {"sub": "boss"}])
def test_signed_token_that_was_never_issued_is_rejected(shopfloor, key, claims, change):
    assert identify_caller(shopfloor, jwt.encode(claims | change, key, algorithm="HS256")) == REVOKED


def test_id_of_an_agent_token_is_rejected_in_a_user_token(shopfloor, key, claims):
    _, token = shopfloor.seed_agent("builder", "WORKER", with_token=True)
    forged = jwt.encode(claims | {"jti": token.split("_")[1], "sub": "builder"}, key, algorithm="HS256")
    assert identify_caller(shopfloor, forged) == REVOKED


def test_revoked_token_is_rejected_by_its_id(shopfloor, guest, claims):
    assert identify_caller(shopfloor, guest) == "user:guest"
    shopfloor.revoke_token(claims["jti"])
    assert identify_caller(shopfloor, guest) == REVOKED


def test_cached_token_expires(shopfloor, guest):
    assert identify_caller(shopfloor, guest) == "user:guest"
    shopfloor.pass_time(30 * DAY)
    assert identify_caller(shopfloor, guest) == REVOKED


def test_token_of_a_removed_user_is_rejected(shopfloor, guest):
    shopfloor.execute("UPDATE person SET removed_at = 1")
    assert identify_caller(shopfloor, guest) == "The user was removed"


def test_the_audience_is_a_setting(shopfloor, open_workbench, guest):
    other = open_workbench(settings={"audience": "elsewhere"})
    assert identify_caller(other, guest) == INVALID
    assert identify_caller(other, other.issue_token(user="guest")["token"]) == "user:guest"


# --- a configured issuer ---


@pytest.fixture(scope="session")
def key_pairs():
    return {
        "RS256": rsa.generate_private_key(65537, 2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    }


def build_jwk(pair, kid, **more):
    """Build the public key in the format that issuers publish."""
    kind: Any = OKPAlgorithm
    if isinstance(pair, rsa.RSAPrivateKey):
        kind = RSAAlgorithm
    elif isinstance(pair, ec.EllipticCurvePrivateKey):
        kind = ECAlgorithm
    return {**kind.to_jwk(pair.public_key(), as_dict=True), "kid": kid, "use": "sig", **more}


class Issuer:
    """A real HTTP server that publishes keys."""

    def __init__(self):
        self.keys: object = []
        self.requests = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.requests += 1
                body = json.dumps({"keys": issuer.keys}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks.json"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def issuer():
    issuer = Issuer()
    yield issuer
    issuer.close()


@pytest.fixture
def workbench_with_issuer(open_workbench, issuer):
    return open_workbench(settings={"issuer": ISSUER, "jwks_url": issuer.url})


def sign_as_issuer(pair, algorithm="RS256", kid="key-1", header=None, **changes):
    claims = {"iss": ISSUER, "aud": "shopfloor", "sub": "guest@example.com", "exp": int(time.time()) + 600} | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, pair, algorithm=algorithm, headers={**({"kid": kid} if kid else {}), **(header or {})})


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_token_of_the_issuer_is_accepted(workbench_with_issuer, issuer, key_pairs, algorithm):
    issuer.keys = [build_jwk(key_pairs[algorithm], "key-1")]
    assert (
        identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs[algorithm], algorithm))
        == "user:guest@example.com"
    )


def test_configured_issuer_makes_tokens_required_from_the_start(workbench_with_issuer):
    assert identify_caller(workbench_with_issuer, None) == "A credential is needed: Authorization: Bearer TOKEN"


def test_own_tokens_work_beside_an_issuer(workbench_with_issuer):
    assert identify_caller(workbench_with_issuer, workbench_with_issuer.seed_user("ann")) == "user:ann"


def test_the_keys_are_fetched_once_for_many_tokens(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    for number in range(20):
        assert (
            identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], sub=f"user-{number}"))
            == f"user:user-{number}"
        )
    assert issuer.requests == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another-service"},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"exp": None},
        {"exp": 1},
        {"iss": "https://evil.example"},
        {"iss": "shopfloor"},
    ],
)
def test_the_issuers_claims_must_hold_as_well(workbench_with_issuer, issuer, key_pairs, changes):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], **changes)) == INVALID


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_access_token_of_the_issuer_may_name_its_type(workbench_with_issuer, issuer, key_pairs, kind):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    token = sign_as_issuer(key_pairs["RS256"], header={"typ": kind})
    assert identify_caller(workbench_with_issuer, token) == "user:guest@example.com"


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt", "secevent+jwt", "at+jwt2", 5, ["JWT"]])
def test_token_of_another_type_is_not_an_access_token(workbench_with_issuer, issuer, key_pairs, kind):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    token = sign_as_issuer(key_pairs["RS256"], header={"typ": kind})
    assert identify_caller(workbench_with_issuer, token) == INVALID


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"crit": ["http://x/y"], "http://x/y": 1}, {"crit": []}])
def test_token_with_critical_headers_is_rejected(workbench_with_issuer, issuer, key_pairs, header):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], header=header)) == INVALID


@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), "9" * 5000])
def test_time_that_is_not_a_time_is_rejected(workbench_with_issuer, issuer, key_pairs, claim, value):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], **{claim: value})) == INVALID


def test_invalid_subject_is_rejected(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], sub="a\nb")).startswith(
        "The token's subject is not a valid user name"
    )


def test_unpublished_key_is_rejected(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    stranger = rsa.generate_private_key(65537, 2048)
    assert identify_caller(workbench_with_issuer, sign_as_issuer(stranger, kid="key-2")) == (
        "The token is signed with a key that the issuer does not publish"
    )
    assert identify_caller(workbench_with_issuer, sign_as_issuer(stranger, kid="key-1")) == INVALID


def test_token_without_a_key_id_uses_the_only_key(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    assert (
        identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], kid=None)) == "user:guest@example.com"
    )


def test_token_without_a_key_id_is_rejected_when_two_keys_are_published(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1"), build_jwk(key_pairs["ES256"], "key-2")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], kid=None)).startswith(
        "The token is signed with a key that"
    )


def test_public_key_is_not_accepted_as_a_shared_secret(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    pem = (
        key_pairs["RS256"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    claims = {"iss": ISSUER, "aud": "shopfloor", "sub": "boss", "exp": int(time.time()) + 600}
    head, body = encode_part({"alg": "HS256", "kid": "key-1"}), encode_part(claims)
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signed = base64.urlsafe_b64encode(_hmac(signature, f"{head}.{body}".encode(), pem)).rstrip(b"=").decode()
    assert identify_caller(workbench_with_issuer, f"{head}.{body}.{signed}") == INVALID
    assert identify_caller(workbench_with_issuer, f"{encode_part({'alg': 'none', 'kid': 'key-1'})}.{body}.") == INVALID


def _hmac(algorithm, message, pem):
    return algorithm.sign(message, pem)


def test_published_shared_secret_is_never_used(workbench_with_issuer, issuer):
    secret = b"0123456789abcdef0123456789abcdef"
    issuer.keys = [{"kty": "oct", "kid": "key-1", "k": base64.urlsafe_b64encode(secret).decode()}]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(secret, "HS256")).startswith(
        "The token is signed with a key that"
    )


def test_key_for_another_use_is_rejected(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1", use="enc")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"])).startswith(
        "The token is signed with a key that"
    )


def test_key_of_another_algorithm_is_rejected(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1", alg="RS256")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], "PS256")) == INVALID


@pytest.mark.parametrize("keys", [None, 5, [None], [{}], [{"kty": "RSA"}], [{"kty": "EC", "crv": "P-256"}]])
def test_invalid_keys_of_an_issuer_cause_no_internal_error(workbench_with_issuer, issuer, key_pairs, keys):
    issuer.keys = keys
    answer = workbench_with_issuer.ask("look", token=sign_as_issuer(key_pairs["RS256"]))
    assert answer.error.code in ("TRANSIENT_ERROR", "PERMISSION_DENIED")


def test_unreachable_issuer_is_a_transient_error(workbench_with_issuer, issuer, key_pairs):
    issuer.close()
    answer = workbench_with_issuer.ask("look", token=sign_as_issuer(key_pairs["RS256"]))
    assert (answer.error.code, answer.error.message) == (
        "TRANSIENT_ERROR",
        "The issuer's keys cannot be fetched; try again in a moment",
    )
    assert workbench_with_issuer.ask("look", token=sign_as_issuer(key_pairs["RS256"])).error.code == "TRANSIENT_ERROR"


def test_rotated_key_is_fetched_and_the_old_one_is_rejected(workbench_with_issuer, issuer, key_pairs, monkeypatch):
    at = [0.0]
    monkeypatch.setattr(jwts, "time", SimpleNamespace(monotonic=lambda: at[0]))
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"])) == "user:guest@example.com"
    issuer.keys = [build_jwk(key_pairs["ES256"], "key-2")]
    fresh = sign_as_issuer(key_pairs["ES256"], "ES256", "key-2")
    assert identify_caller(workbench_with_issuer, fresh).startswith("The token is signed with a key that")
    at[0] = 31
    assert identify_caller(workbench_with_issuer, fresh) == "user:guest@example.com"
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"], sub="late")).startswith(
        "The token is signed with a key that"
    )
    assert issuer.requests == 2


def test_cached_token_of_the_issuer_expires(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    token = sign_as_issuer(key_pairs["RS256"])
    assert identify_caller(workbench_with_issuer, token) == "user:guest@example.com"
    workbench_with_issuer.pass_time(601 * SECOND)
    assert identify_caller(workbench_with_issuer, token) == REVOKED


def test_token_that_may_need_a_key_download_is_not_checked_on_the_event_loop(
    shopfloor, workbench_with_issuer, issuer, key_pairs
):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    credential = Credential(token=sign_as_issuer(key_pairs["RS256"]))
    assert (
        shopfloor.engine.identity.resolves_locally(credential),
        workbench_with_issuer.engine.identity.resolves_locally(credential),
    ) == (
        True,
        False,
    )
    workbench_with_issuer.engine.identity.authenticate(credential)
    assert workbench_with_issuer.engine.identity.resolves_locally(credential) is True
    assert workbench_with_issuer.engine.identity.resolves_locally(Credential()) is True


def test_issuer_token_of_a_removed_user_is_rejected(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    workbench_with_issuer.add_user("guest@example.com")
    workbench_with_issuer.remove_user("guest@example.com")
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"])) == "The user was removed"


def test_issuer_token_of_a_purged_user_is_rejected(workbench_with_issuer, issuer, key_pairs):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    workbench_with_issuer.add_user("guest@example.com")
    workbench_with_issuer.execute("UPDATE person SET removed_at = 1")
    workbench_with_issuer.engine.database.write(lambda uow: todos.purge_deleted(uow, 1000), OPERATOR)
    assert workbench_with_issuer.rows("SELECT removed_at FROM person") == [(0,)]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"])) == "The user was removed"


def test_tokens_of_a_withdrawn_key_are_rejected_after_the_refresh(
    workbench_with_issuer, issuer, key_pairs, monkeypatch
):
    at = [0.0]
    monkeypatch.setattr(jwts, "time", SimpleNamespace(monotonic=lambda: at[0]))
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1"), build_jwk(key_pairs["ES256"], "key-2")]
    known = sign_as_issuer(key_pairs["RS256"])
    assert identify_caller(workbench_with_issuer, known) == "user:guest@example.com"
    issuer.keys = [build_jwk(key_pairs["ES256"], "key-2")]
    assert identify_caller(workbench_with_issuer, known) == "user:guest@example.com"
    at[0] = jwts.REFRESH_SECONDS + 1
    wait_until(lambda: identify_caller(workbench_with_issuer, known).startswith("The token is signed with a key that"))
    assert issuer.requests == 2


def test_keys_that_cannot_be_confirmed_are_not_trusted_for_ever(workbench_with_issuer, issuer, key_pairs, monkeypatch):
    at = [0.0]
    monkeypatch.setattr(jwts, "time", SimpleNamespace(monotonic=lambda: at[0]))
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    known = sign_as_issuer(key_pairs["RS256"])
    assert identify_caller(workbench_with_issuer, known) == "user:guest@example.com"
    issuer.close()
    at[0] = jwts.MAX_KEY_AGE_SECONDS + 1
    time.sleep(0.6)  # the principal of a token is cached for half a second
    assert identify_caller(workbench_with_issuer, known).startswith("The issuer's keys cannot be fetched")


def test_made_up_key_ids_that_arrive_together_share_one_fetch(workbench_with_issuer, issuer, key_pairs, monkeypatch):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"])) == "user:guest@example.com"
    fetches, asked, answered = [], threading.Event(), threading.Event()

    def send_slowly(*_, **__):
        fetches.append(1)
        asked.set()
        # Only the first: a second fetch fails this test, and need not delay it.
        if len(fetches) == 1:
            answered.wait(60)
        raise RequestFailed("slow")

    monkeypatch.setattr(jwts, "send_request", send_slowly)
    monkeypatch.setattr(jwts, "_REFETCH_SECONDS", 0)
    monkeypatch.setattr(jwts, "_FETCH_SECONDS", 0)  # the others do not wait for the fetch either
    junk = [sign_as_issuer(key_pairs["RS256"], kid=f"made-up-{number}") for number in range(12)]
    first = threading.Thread(target=identify_caller, args=(workbench_with_issuer, junk[0]))
    first.start()
    assert asked.wait(60)
    unknown = "The token is signed with a key that the issuer does not publish"
    assert {identify_caller(workbench_with_issuer, token) for token in junk[1:]} == {unknown}
    answered.set()
    first.join(60)
    assert len(fetches) == 1


def test_slow_issuer_delays_only_tokens_with_unknown_keys(workbench_with_issuer, issuer, key_pairs, monkeypatch):
    issuer.keys = [build_jwk(key_pairs["RS256"], "key-1")]
    assert identify_caller(workbench_with_issuer, sign_as_issuer(key_pairs["RS256"])) == "user:guest@example.com"
    asked, answered = threading.Event(), threading.Event()

    def send_slowly(*_, **__):
        asked.set()
        answered.wait(60)
        raise RequestFailed("slow")

    monkeypatch.setattr(jwts, "send_request", send_slowly)
    monkeypatch.setattr(jwts, "_REFETCH_SECONDS", 0)
    junk = [sign_as_issuer(key_pairs["RS256"], kid=f"made-up-{number}") for number in range(3)]
    stuck = [threading.Thread(target=identify_caller, args=(workbench_with_issuer, token)) for token in junk]
    for thread in stuck:
        thread.start()
    assert asked.wait(60)
    identity = workbench_with_issuer.engine.identity
    other = sign_as_issuer(key_pairs["RS256"], sub="ann")
    opaque = workbench_with_issuer.seed_agent("builder", "WORKER", with_token=True)[1]
    assert identity.may_wait_for_issuer(Credential(token=junk[0]))
    assert not identity.may_wait_for_issuer(Credential(token=other))
    assert not identity.may_wait_for_issuer(Credential(token=opaque))
    assert identify_caller(workbench_with_issuer, other) == "user:ann"
    answered.set()
    for thread in stuck:
        thread.join(60)
