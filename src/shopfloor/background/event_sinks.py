"""Event sinks: events are also delivered to the configured webhooks and to Inngest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shopfloor.background.dispatcher import Subscriber
from shopfloor.domain.crew_events import CrewEnded, CrewStarted, TaskMerged
from shopfloor.domain.events import KINDS, Event
from shopfloor.domain.run_events import RunAnswered, RunAsked, RunEnded, RunStarted
from shopfloor.errors import BadSettings
from shopfloor.gateways.notifications import EVENTS, Notifier
from shopfloor.gateways.webhooks import Inngest, Webhook

_KINDS: tuple[type[Event], ...] = (
    *KINDS,
    *(RunStarted, RunEnded, RunAsked, RunAnswered),
    *(CrewStarted, CrewEnded, TaskMerged),
)
EVERY_EVENT = frozenset(kind.name for kind in _KINDS)
"""All events except changes to private lists, and steps of a run or crew, which only its pages and driver need."""


class Target(Protocol):
    """A webhook of the settings."""

    @property
    def url(self) -> str: ...

    @property
    def events(self) -> tuple[str, ...]: ...

    @property
    def secret(self) -> str: ...

    @property
    def concurrency(self) -> int: ...


def subscribers(
    webhooks: Sequence[Target],
    secret: str,
    inngest: bool,
    *,
    previous_secret: str | None = None,
    private_addresses: bool = False,
) -> list[Subscriber]:
    """Return one subscriber for each webhook, and one for Inngest."""
    found = []
    for target in webhooks:
        sink = Webhook(target.url, target.secret or secret, previous_secret, private_addresses=private_addresses)
        found.append(
            Subscriber(sink.name, _choose_events(target.events), external=sink, concurrency=target.concurrency)
        )
    return [*found, Subscriber(Inngest.name, EVERY_EVENT, external=Inngest())] if inngest else found


def _choose_events(names: Sequence[str]) -> frozenset[str]:
    if unknown := sorted(set(names) - EVERY_EVENT):
        raise BadSettings(f"webhooks: unknown event '{unknown[0]}'; expected any of {', '.join(sorted(EVERY_EVENT))}")
    return frozenset(names) or EVERY_EVENT


def notifying_subscribers(notifiers: Sequence[Notifier]) -> list[Subscriber]:
    """Return one subscriber per notification channel."""
    return [Subscriber(notifier.name, EVENTS, external=notifier) for notifier in notifiers]
