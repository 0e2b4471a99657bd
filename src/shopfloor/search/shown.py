"""What each session has been shown, so that a search can leave it out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from shopfloor.domain.chunks import digest_text
from shopfloor.search.results import Result

MAX_SESSIONS = 1000
MAX_RESULTS_PER_SESSION = 2000
"""How many of its latest results are remembered for each session: 100 kB."""


class ShownResults:
    """The results that sessions have been shown, in the memory of this process.

    A result whose text has changed since counts as not shown.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: OrderedDict[str, OrderedDict[bytes, None]] = OrderedDict()

    def add(self, session: str, results: Iterable[Result]) -> None:
        """Remember that a session has been shown these results."""
        with self._lock:
            shown = self._shown.setdefault(session, OrderedDict())
            self._shown.move_to_end(session)
            for result in results:
                shown[_key(result)] = None
                shown.move_to_end(_key(result))
            while len(shown) > MAX_RESULTS_PER_SESSION:
                shown.popitem(last=False)
            while len(self._shown) > MAX_SESSIONS:
                self._shown.popitem(last=False)

    def includes(self, session: str, result: Result) -> bool:
        """Return whether a session has been shown this result, with this text."""
        with self._lock:
            return _key(result) in self._shown.get(session, ())


def _key(result: Result) -> bytes:
    return digest_text(f"{result.id}\n{result.content}")
