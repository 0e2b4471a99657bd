"""Deliver events to a webhook or to Inngest. The id of a delivery identifies repeated attempts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cached_property
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from shopfloor.domain.events import StoredEvent
from shopfloor.domain.times import SECOND, format_iso
from shopfloor.errors import BadSettings, DeliveryFailed
from shopfloor.gateways import clock
from shopfloor.gateways.http_client import RequestFailed, send_request

TIMEOUT_SECONDS = 8
"""Total time that a receiver may take. Five deliveries fit into one lease of the dispatcher."""


SECRET_PREFIX = "whsec_"  # nosec B105 # it only marks a secret


class Webhook:
    """A URL that receives each event as JSON, with the headers of the Standard Webhooks convention."""

    def __init__(
        self, url: str, secret: str, previous_secret: str | None = None, *, private_addresses: bool = True
    ) -> None:
        self._url = url
        # Two, while a secret is rotated: receivers accept a request if one of its signatures is valid.
        self._secrets = [_decode_secret(each) for each in (secret, previous_secret) if each]
        self._private_addresses = private_addresses
        host = urlsplit(url).netloc.rpartition("@")[2]
        # The URL of a webhook is often a secret itself.
        self.name = f"webhook {host} {hashlib.sha256(url.encode()).hexdigest()[:8]}"

    def __call__(self, event: StoredEvent) -> None:
        """Deliver the event, or raise DeliveryFailed."""
        body = json.dumps({"type": event.name, "timestamp": format_iso(event.created_at), "data": event.data}).encode()
        # The time of the attempt: receivers reject signatures older than a few minutes, and retries continue for hours.
        at = str(clock.now() // SECOND)
        headers = {"Content-Type": "application/json", "Webhook-Id": _build_id(event), "Webhook-Timestamp": at}
        # The id and the time are signed with the body, so that a captured delivery cannot be replayed as another.
        if self._secrets:
            signed = f"{_build_id(event)}.{at}.".encode() + body
            headers["Webhook-Signature"] = " ".join(_sign(secret, signed) for secret in self._secrets)
        try:
            response = send_request(
                "POST",
                self._url,
                content=body,
                headers=headers,
                timeout=TIMEOUT_SECONDS,
                total_seconds=TIMEOUT_SECONDS,
                max_bytes=0,
                private_addresses=self._private_addresses,
            )
        except RequestFailed as error:
            raise DeliveryFailed(f"The receiver cannot be reached: {error}") from None
        if not response.is_success:
            raise DeliveryFailed(f"The receiver answered {response.status}")


class Inngest:
    """Inngest receives each event under its own name. Its address and key are in its own variables, `INNGEST_…`."""

    name = "inngest"

    def __init__(self) -> None:
        if find_spec("inngest") is None:
            raise BadSettings("inngest: the SDK is not installed; run pip install 'shopfloor[inngest]'")

    def __call__(self, event: StoredEvent) -> None:
        """Deliver the event, or raise DeliveryFailed."""
        client, event_type = self._sdk
        sent = event_type(name=event.name, data=event.data, id=_build_id(event), ts=event.created_at // 1000)
        try:
            client.send_sync(sent)
        except Exception as error:  # noqa: BLE001 - the SDK raises errors of many libraries
            raise DeliveryFailed(f"Inngest rejected the event: {type(error).__name__}: {error}") from None

    @cached_property
    def _sdk(self) -> tuple[Any, Any]:
        import inngest  # noqa: PLC0415 - heavy, and optional

        return inngest.Inngest(app_id="shopfloor"), inngest.Event


def _decode_secret(secret: str) -> bytes:
    """Return the key of a secret: `whsec_` is followed by base64, as Standard Webhooks says; other secrets are text."""
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        raise BadSettings(f"webhook_secret: must be base64 after {SECRET_PREFIX}") from None


def _sign(secret: bytes, signed: bytes) -> str:
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"


def _build_id(event: StoredEvent) -> str:
    """Build the id of the delivery: the same for each attempt, and unique among servers that share a receiver."""
    return f"{event.name}-{event.id}-{event.created_at}"
