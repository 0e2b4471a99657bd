"""Webhooks follow the Standard Webhooks convention."""

from __future__ import annotations

import base64
import hmac
import time

import pytest

from shopfloor.domain.events import StoredEvent
from shopfloor.errors import BadSettings, DeliveryFailed
from shopfloor.gateways.webhooks import Webhook
from tests.gateways.receiver import start_receiver

OLD_EVENT = StoredEvent(7, "mail.sent", {"mail": 1}, None, 1_000_000_000_000_000, 3)


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("plain text", b"plain text"),
        ("whsec_" + base64.b64encode(b"\x00twenty-four random byte").decode(), b"\x00twenty-four random byte"),
    ],
)
def test_signature_uses_the_decoded_secret_and_the_time_of_the_attempt(secret: str, key: bytes):
    with start_receiver() as receiver:
        Webhook(receiver.url, secret)(OLD_EVENT)
    ((_, _, headers, body),) = receiver.requests
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


def test_secret_that_is_not_base64_is_refused():
    with pytest.raises(BadSettings, match="webhook_secret: must be base64 after whsec_"):
        Webhook("http://127.0.0.1:9", "whsec_not base64!")


def test_both_secrets_sign_while_one_is_rotated():
    with start_receiver() as receiver:
        Webhook(receiver.url, "new", "old")(OLD_EVENT)
    ((_, _, headers, body),) = receiver.requests
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = [base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in (b"new", b"old")]
    assert headers["webhook-signature"] == f"v1,{expected[0]} v1,{expected[1]}"


def test_private_address_gets_nothing_unless_it_is_allowed():
    with start_receiver() as receiver:
        port = receiver.server_address[1]
        for url in (receiver.url, f"http://localhost:{port}"):
            with pytest.raises(DeliveryFailed, match="private address"):
                Webhook(url, "s", private_addresses=False)(OLD_EVENT)
        assert receiver.requests == []
        Webhook(receiver.url, "s", private_addresses=True)(OLD_EVENT)
    assert len(receiver.requests) == 1
