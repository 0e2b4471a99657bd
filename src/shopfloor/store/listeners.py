"""Who wants to hear of commits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock, RLock
from typing import Any

from shopfloor.store.interface import Callback

LOOK: frozenset[str] = frozenset()
"""No topic in particular: anything may have changed."""

_log = logging.getLogger("shopfloor.store")


class Listeners:
    """Callbacks, called one at a time."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()
        self._changing = Lock()
        self._telling = RLock()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> Callable[[], None]:
        """The function that ends it."""
        listener = guarded(callback)
        with self._changing:
            self._callbacks = (*self._callbacks, listener)

        def end() -> None:
            with self._changing:
                self._callbacks = tuple(each for each in self._callbacks if each is not listener)

        return end

    def tell(self, topics: frozenset[str]) -> None:
        with self._telling:
            for callback in self._callbacks:
                callback(topics)


def guarded(callback: Callable[[Any], None]) -> Callable[[Any], None]:
    """A callback whose failure is its own, and logged."""

    def call(value: Any) -> None:
        try:
            callback(value)
        except Exception:  # noqa: BLE001 - it is not the store's
            _log.exception("a listener failed")

    return call
