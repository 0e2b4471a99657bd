"""The ways of an event to the outside: a web hook, or Inngest. Whoever gets one knows it again by its id."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from shopfloor.domain.events import Told
from shopfloor.domain.times import SECOND, iso
from shopfloor.errors import BadSettings, Undelivered

SECONDS = 8
"""How long the other side may take; five fit into a lease of the dispatcher."""


class Webhook:
    """An address that gets each event as JSON, with the headers of the Standard Webhooks convention."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._secret = secret.encode()
        host = urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
        # Addresses of web hooks are secrets themselves often enough.
        self.name = f"webhook {host} {hashlib.sha256(url.encode()).hexdigest()[:8]}"

    def __call__(self, event: Told) -> None:
        body = json.dumps({"type": event.name, "timestamp": iso(event.created_at), "data": event.data}).encode()
        request = urllib.request.Request(self._url, body, self._headers(event, body))
        try:
            with _opener.open(request, timeout=SECONDS):
                pass
        except urllib.error.HTTPError as error:
            raise Undelivered(f"The other side answered {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Undelivered(f"The other side cannot be reached: {getattr(error, 'reason', error)}") from None

    def _headers(self, event: Told, body: bytes) -> dict[str, str]:
        at = str(event.created_at // SECOND)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "shopfloor",
            "Webhook-Id": _id(event),
            "Webhook-Timestamp": at,
        }
        if self._secret:
            signed = hmac.digest(self._secret, f"{_id(event)}.{at}.".encode() + body, "sha256")
            headers["Webhook-Signature"] = f"v1,{base64.b64encode(signed).decode()}"
        return headers


class Inngest:
    """Inngest gets each event under its own name; where it is and its key are in its own variables, `INNGEST_…`."""

    name = "inngest"

    def __init__(self) -> None:
        if find_spec("inngest") is None:
            raise BadSettings("inngest: its kit is not installed; pip install 'shopfloor[inngest]'")

    def __call__(self, event: Told) -> None:
        client, kind = self._kit
        sent = kind(name=event.name, data=event.data, id=_id(event), ts=event.created_at // 1000)
        try:
            client.send_sync(sent)
        except Exception as error:  # noqa: BLE001 - whatever the kit comes up with, in our words
            raise Undelivered(f"Inngest did not take it: {type(error).__name__}: {error}") from None

    @cached_property
    def _kit(self) -> tuple[Any, Any]:
        import inngest  # noqa: PLC0415 - heavy, and optional

        return inngest.Inngest(app_id="shopfloor"), inngest.Event


def _id(event: Told) -> str:
    """The same at each attempt, and of no other event of any floor that shares the outlet."""
    return f"{event.name}-{event.id}-{event.created_at}"


class _Stay(urllib.request.HTTPRedirectHandler):
    """What is meant for one address goes to no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_opener = urllib.request.build_opener(_Stay)
