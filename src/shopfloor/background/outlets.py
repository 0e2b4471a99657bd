"""Outlets: every event goes to the outside as well, where somebody asked for it."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.background.dispatcher import Subscriber
from shopfloor.domain.events import KINDS
from shopfloor.gateways.outlets import Inngest, Webhook

EVERY = frozenset(kind.name for kind in KINDS)


def subscribers(webhooks: Sequence[str], secret: str, inngest: bool) -> list[Subscriber]:
    """One for each address, and one for Inngest."""
    outlets: list[Webhook | Inngest] = [Webhook(url, secret) for url in webhooks]
    if inngest:
        outlets.append(Inngest())
    return [Subscriber(outlet.name, EVERY, outside=outlet) for outlet in outlets]
