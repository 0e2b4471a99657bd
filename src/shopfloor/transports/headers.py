"""The headers of a request, read once.

Starlette's `Headers` scans all headers at each lookup. The gate, the credential and the endpoint look up a dozen, which
took 7 % of a call.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Scope

_KEY = "shopfloor.request_headers"


class RequestHeaders:
    """The values of each header by lower-case name, without surrounding white space."""

    __slots__ = ("_values", "pairs")

    def __init__(self, sent: Iterable[tuple[bytes, bytes]]) -> None:
        # httptools keeps the white space, which RFC 9110 excludes from the value.
        self.pairs = [(name.decode("latin-1"), value.strip(b" \t").decode("latin-1")) for name, value in sent]
        self._values: dict[str, list[str]] = {}
        for name, value in self.pairs:
            self._values.setdefault(name, []).append(value)

    def find(self, name: str, default: str = "") -> str:
        """Return the first value of a header, or the default."""
        values = self._values.get(name)
        return values[0] if values else default

    def list(self, name: str) -> list[str]:
        """Return all values of a header."""
        return self._values.get(name, [])

    @property
    def names(self) -> Iterable[str]:
        return self._values


def read_headers(scope: Scope) -> RequestHeaders:
    """Return the headers of a request. They are parsed on the first call and kept with the request."""
    headers: RequestHeaders | None = scope.get(_KEY)
    if headers is None:
        headers = scope[_KEY] = RequestHeaders(scope["headers"])
    return headers
