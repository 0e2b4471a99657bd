"""Who wants to hear of commits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock

from shopfloor.store.interface import Callback

LOOK: frozenset[str] = frozenset()
"""No topic in particular: anything may have changed."""

_log = logging.getLogger("shopfloor.store")


class Listeners:
    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> Callable[[], None]:
        """The function that ends it."""
        heard = _Listener(callback)
        with self._lock:
            self._callbacks = (*self._callbacks, heard)

        def end() -> None:
            with self._lock:
                self._callbacks = tuple(each for each in self._callbacks if each is not heard)

        return end

    def tell(self, topics: frozenset[str]) -> None:
        for callback in self._callbacks:
            callback(topics)


class _Listener:
    """A callback whose failure is its own."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback

    def __call__(self, topics: frozenset[str]) -> None:
        try:
            self._callback(topics)
        except Exception:  # noqa: BLE001 - it is not the store's
            _log.exception("a listener failed")
