"""Callbacks that are called after commits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock, RLock
from typing import Any

from shopfloor.store.protocol import Callback

ANY_TOPIC: frozenset[str] = frozenset()
"""The notification without a topic: anything may have changed."""

_log = logging.getLogger("shopfloor.store")


class Listeners:
    """Callbacks, called one at a time."""

    def __init__(self) -> None:
        # Replaced, never changed, so that `notify` reads it without taking `_changing`: a callback may remove itself.
        self._callbacks: tuple[Callback, ...] = ()
        self._changing = Lock()
        self._notifying = RLock()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> Callable[[], None]:
        """Add a callback and return the function that removes it."""
        listener = guard(callback)
        with self._changing:
            self._callbacks = (*self._callbacks, listener)

        def remove() -> None:
            with self._changing:
                self._callbacks = tuple(each for each in self._callbacks if each is not listener)

        return remove

    def notify(self, topics: frozenset[str]) -> None:
        """Call every callback with the topics."""
        with self._notifying:
            for callback in self._callbacks:
                callback(topics)


def guard(callback: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap a callback so that its exceptions are logged and reach no other callback."""

    def call(value: Any) -> None:
        try:
            callback(value)
        except Exception:  # noqa: BLE001 - a callback's failure must not stop the thread that commits
            _log.exception("a listener failed")

    return call
