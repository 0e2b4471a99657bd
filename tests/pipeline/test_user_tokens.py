"""Users carry a JWT: by the floor's own key, or by a configured issuer. The key that is used fixes the algorithm."""

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

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.times import DAY, SECOND
from shopfloor.gateways import jwts
from shopfloor.toolkit import Credential
from shopfloor.usecases import todos

INVALID = "The token is not valid"
REVOKED = "The token is not valid, has expired or was revoked"
ISSUER = "https://id.example"


@pytest.fixture
def database(tmp_path):
    """Cryptography does not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def who(floor, token):
    """The principal that the token stands for, or the message of the refusal."""
    answer = floor.ask("look", token=token)
    return answer.call.actor.key if answer.error is None else answer.error.message


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.fixture
def guest(floor):
    return floor.add_user("guest")[1]


@pytest.fixture
def key(floor, guest):
    ((value,),) = floor.rows("SELECT value FROM secret WHERE name = 'user-tokens'")
    return bytes(value)


@pytest.fixture
def claims(key, guest):
    return jwt.decode(guest, key, algorithms=["HS256"], audience="shopfloor")


def test_a_users_token_says_who_for_whom_and_until_when(floor, claims):
    (issued,) = floor.tokens()
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


def test_it_opens_the_door(floor, guest):
    assert who(floor, guest) == "user:guest"


@pytest.mark.parametrize("spelling", ["none", "None", "NONE", "nOnE"])
@pytest.mark.parametrize("signature", ["", "c2ln"])
def test_an_unsigned_token_is_refused_however_it_is_spelled(floor, claims, spelling, signature):
    token = f"{part({'alg': spelling, 'typ': 'JWT'})}.{part(claims)}.{signature}"
    assert who(floor, token) == INVALID


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_another_algorithm_is_refused_also_with_the_right_key(floor, key, claims, algorithm):
    assert who(floor, jwt.encode(claims, key * 2, algorithm=algorithm)) == INVALID


def test_a_token_signed_with_a_key_pair_is_refused_by_the_floors_own_key(floor, claims, pairs):
    assert who(floor, jwt.encode(claims, pairs["RS256"], algorithm="RS256")) == INVALID


def test_another_key_is_refused(floor, claims):
    assert who(floor, jwt.encode(claims, b"0" * 32, algorithm="HS256")) == INVALID


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
def test_claims_that_do_not_hold_are_refused(floor, key, claims, change):
    token = jwt.api_jws.encode(json.dumps(claims | change).encode(), key, algorithm="HS256")
    assert who(floor, token) == INVALID


@pytest.mark.parametrize("claim", ["iss", "aud", "sub", "exp", "jti"])
def test_a_missing_claim_is_refused(floor, key, claims, claim):
    del claims[claim]
    assert who(floor, jwt.encode(claims, key, algorithm="HS256")) == INVALID


def test_a_changed_token_is_refused(floor, guest, claims):
    head, _, signature = guest.split(".")
    assert who(floor, f"{head}.{part(claims | {'sub': 'boss'})}.{signature}") == INVALID
    assert who(floor, f"{head}.{part([])}.{signature}") == INVALID
    assert who(floor, f"{head}.{signature}") == INVALID


@pytest.mark.parametrize("change", [{"jti": "abcdefghjkmn"}, {"sub": "boss"}])
def test_even_with_the_right_key_a_token_must_be_one_that_was_issued(floor, key, claims, change):
    assert who(floor, jwt.encode(claims | change, key, algorithm="HS256")) == REVOKED


def test_the_id_of_an_agents_token_is_no_users_token(floor, key, claims):
    _, token = floor.hire("builder", "WORKER", with_token=True)
    forged = jwt.encode(claims | {"jti": token.split("_")[1], "sub": "builder"}, key, algorithm="HS256")
    assert who(floor, forged) == REVOKED


def test_a_revoked_token_is_refused_by_its_id(floor, guest, claims):
    assert who(floor, guest) == "user:guest"
    floor.revoke_token(claims["jti"])
    assert who(floor, guest) == REVOKED


def test_it_expires_also_when_it_is_known_already(floor, guest):
    assert who(floor, guest) == "user:guest"
    floor.pass_time(30 * DAY)
    assert who(floor, guest) == REVOKED


def test_a_removed_user_opens_nothing(floor, guest):
    floor.execute("UPDATE person SET removed_at = 1")
    assert who(floor, guest) == "The user was removed"


def test_the_audience_is_a_setting(floor, opened, guest):
    other = opened(settings={"audience": "elsewhere"})
    assert who(other, guest) == INVALID
    assert who(other, other.issue_token(user="guest")[1]) == "user:guest"


# --- an issuer of one's own ---


@pytest.fixture(scope="session")
def pairs():
    return {
        "RS256": rsa.generate_private_key(65537, 2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    }


def published(pair, kid, **more):
    """The public half, as issuers publish it."""
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
        self.asked = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked += 1
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
def trusting(opened, issuer):
    return opened(settings={"issuer": ISSUER, "jwks_url": issuer.url})


def foreign(pair, algorithm="RS256", kid="key-1", **changes):
    claims = {"iss": ISSUER, "aud": "shopfloor", "sub": "guest@example.com", "exp": int(time.time()) + 600} | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, pair, algorithm=algorithm, headers={"kid": kid} if kid else {})


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_the_issuers_word_opens_the_door(trusting, issuer, pairs, algorithm):
    issuer.keys = [published(pairs[algorithm], "key-1")]
    assert who(trusting, foreign(pairs[algorithm], algorithm)) == "user:guest@example.com"


def test_with_an_issuer_the_floor_is_closed_from_the_start(trusting):
    assert who(trusting, None) == "A credential is needed: Authorization: Bearer TOKEN"


def test_the_floors_own_tokens_work_beside_it(trusting):
    assert who(trusting, trusting.add_user("ann")[1]) == "user:ann"


def test_the_keys_are_fetched_once_for_many_tokens(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    for number in range(20):
        assert who(trusting, foreign(pairs["RS256"], sub=f"user-{number}")) == f"user:user-{number}"
    assert issuer.asked == 1


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
def test_the_issuers_claims_must_hold_as_well(trusting, issuer, pairs, changes):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    assert who(trusting, foreign(pairs["RS256"], **changes)) == INVALID


def test_a_name_that_no_user_can_have_is_refused(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    assert who(trusting, foreign(pairs["RS256"], sub="a\nb")).startswith("The token names no possible user")


def test_a_key_that_is_not_published_is_refused(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    stranger = rsa.generate_private_key(65537, 2048)
    assert who(trusting, foreign(stranger, kid="key-2")) == (
        "The token is signed with a key that the issuer does not publish"
    )
    assert who(trusting, foreign(stranger, kid="key-1")) == INVALID


def test_without_a_name_the_only_key_is_meant(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    assert who(trusting, foreign(pairs["RS256"], kid=None)) == "user:guest@example.com"


def test_without_a_name_two_keys_are_one_too_many(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1"), published(pairs["ES256"], "key-2")]
    assert who(trusting, foreign(pairs["RS256"], kid=None)).startswith("The token is signed with a key that")


def test_the_public_key_is_no_shared_secret(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    pem = (
        pairs["RS256"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    claims = {"iss": ISSUER, "aud": "shopfloor", "sub": "boss", "exp": int(time.time()) + 600}
    head, body = part({"alg": "HS256", "kid": "key-1"}), part(claims)
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signed = base64.urlsafe_b64encode(_hmac(signature, f"{head}.{body}".encode(), pem)).rstrip(b"=").decode()
    assert who(trusting, f"{head}.{body}.{signed}") == INVALID
    assert who(trusting, f"{part({'alg': 'none', 'kid': 'key-1'})}.{body}.") == INVALID


def _hmac(algorithm, message, pem):
    return algorithm.sign(message, pem)


def test_a_shared_secret_is_never_taken_from_the_published_keys(trusting, issuer):
    secret = b"0123456789abcdef0123456789abcdef"
    issuer.keys = [{"kty": "oct", "kid": "key-1", "k": base64.urlsafe_b64encode(secret).decode()}]
    assert who(trusting, foreign(secret, "HS256")).startswith("The token is signed with a key that")


def test_a_key_for_something_else_does_not_sign(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1", use="enc")]
    assert who(trusting, foreign(pairs["RS256"])).startswith("The token is signed with a key that")


def test_a_key_of_one_algorithm_does_not_do_for_another(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1", alg="RS256")]
    assert who(trusting, foreign(pairs["RS256"], "PS256")) == INVALID


@pytest.mark.parametrize("keys", [None, 5, [None], [{}], [{"kty": "RSA"}], [{"kty": "EC", "crv": "P-256"}]])
def test_an_issuer_that_publishes_nonsense_is_no_reason_to_break(trusting, issuer, pairs, keys):
    issuer.keys = keys
    answer = trusting.ask("look", token=foreign(pairs["RS256"]))
    assert answer.error.code in ("TRANSIENT_ERROR", "PERMISSION_DENIED")


def test_an_issuer_that_cannot_be_reached_is_no_fault_of_the_caller(trusting, issuer, pairs):
    issuer.close()
    answer = trusting.ask("look", token=foreign(pairs["RS256"]))
    assert (answer.error.code, answer.error.message) == (
        "TRANSIENT_ERROR",
        "The issuer's keys cannot be fetched; try again in a moment",
    )
    assert trusting.ask("look", token=foreign(pairs["RS256"])).error.code == "TRANSIENT_ERROR"


def test_a_new_key_is_found_and_the_old_one_no_longer_counts(trusting, issuer, pairs, monkeypatch):
    at = [0.0]
    monkeypatch.setattr(jwts, "time", SimpleNamespace(monotonic=lambda: at[0]))
    issuer.keys = [published(pairs["RS256"], "key-1")]
    assert who(trusting, foreign(pairs["RS256"])) == "user:guest@example.com"
    issuer.keys = [published(pairs["ES256"], "key-2")]
    fresh = foreign(pairs["ES256"], "ES256", "key-2")
    assert who(trusting, fresh).startswith("The token is signed with a key that")
    at[0] = 31
    assert who(trusting, fresh) == "user:guest@example.com"
    assert who(trusting, foreign(pairs["RS256"], sub="late")).startswith("The token is signed with a key that")
    assert issuer.asked == 2


def test_the_issuers_token_expires_also_when_it_is_known_already(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    token = foreign(pairs["RS256"])
    assert who(trusting, token) == "user:guest@example.com"
    trusting.pass_time(601 * SECOND)
    assert who(trusting, token) == REVOKED


def test_a_token_for_which_keys_may_have_to_be_fetched_is_not_checked_on_the_event_loop(floor, trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    credential = Credential(token=foreign(pairs["RS256"]))
    assert (floor.floor.identity.at_hand(credential), trusting.floor.identity.at_hand(credential)) == (True, False)
    trusting.floor.identity.authenticate(credential)
    assert trusting.floor.identity.at_hand(credential) is True
    assert trusting.floor.identity.at_hand(Credential()) is True


def test_a_user_of_the_issuer_who_was_removed_here_opens_nothing(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    trusting.add_user("guest@example.com")
    trusting.remove_user("guest@example.com")
    assert who(trusting, foreign(pairs["RS256"])) == "The user was removed"


def test_nor_after_everything_about_the_user_was_forgotten(trusting, issuer, pairs):
    issuer.keys = [published(pairs["RS256"], "key-1")]
    trusting.add_user("guest@example.com")
    trusting.execute("UPDATE person SET removed_at = 1")
    trusting.floor.works.write(todos.purge, OPERATOR)
    assert trusting.rows("SELECT removed_at FROM person") == [(0,)]
    assert who(trusting, foreign(pairs["RS256"])) == "The user was removed"
