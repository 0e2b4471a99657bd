"""The endpoint of an entry in a client's config: a URL with headers, or a command."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

_TOKEN = re.compile(r"\bsf[a-z]_([a-z2-9]{12})_[A-Za-z0-9_-]{43}\b")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server as a client reaches it."""

    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    @property
    def transport(self) -> str:
        """`http` or `stdio`."""
        return "stdio" if self.command else "http"

    @property
    def token(self) -> str | None:
        """The token in the headers, or None if they contain a reference or no token."""
        return find_token(" ".join(self.headers.values()))

    @property
    def address(self) -> str:
        """The URL, or the command as typed."""
        return self.url or " ".join(self.command)

    def find_option(self, name: str) -> str | None:
        """Return the value of an option of the command."""
        return next((value for word, value in pairwise(self.command) if word == name), None)


def read_endpoint(entry: Any) -> Endpoint:
    """Read an entry in the shape of any client."""
    if not isinstance(entry, dict):
        return Endpoint()
    command = entry.get("command") or entry.get("cmd") or []
    words = [command] if isinstance(command, str) else command
    arguments = entry.get("args") or []
    if not isinstance(words, list) or not isinstance(arguments, list):
        return Endpoint()
    headers = entry.get("headers") or entry.get("http_headers") or {}
    if variable := entry.get("bearer_token_env_var"):
        headers = {"Authorization": f"Bearer ${variable}"}
    url = entry.get("url") or entry.get("httpUrl") or entry.get("uri")
    return Endpoint(
        None if url is None else str(url),
        {str(key): str(value) for key, value in headers.items()} if isinstance(headers, dict) else {},
        tuple(str(word) for word in [*words, *arguments]),
    )


def find_token(text: str) -> str | None:
    """Return the token of an agent in a text."""
    found = _TOKEN.search(text)
    return found[0] if found else None


def get_token_id(token: str) -> str:
    """Return the id of a token, as `shopfloor token list` shows it."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise ValueError("not a token of an agent")
    return found[1]
