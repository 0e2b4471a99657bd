"""Common parts of every page's response: headers, status, and safe redirects."""

from __future__ import annotations

from shopfloor.errors import ShopfloorError, Unauthenticated

HEADERS = {
    # Agents write much of what the pages show. If a text gets past the escaping, none of its scripts or styles run, and
    # none of its forms can post elsewhere.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Going back after signing out must not show the page from the browser's cache.
    "Cache-Control": "no-store",
}

_STATUS_BY_CODE = {
    "PERMISSION_DENIED": 403,
    "RESOURCE_NOT_FOUND": 404,
    "AGENT_NOT_FOUND": 404,
    "TOOL_NOT_FOUND": 404,
    "INVALID_AGENT_STATE": 409,
    "INVALID_INPUT": 422,
    "RATE_LIMITED": 429,
}


def status_of(error: ShopfloorError | None) -> int:
    """Return the HTTP status of a page that shows this error."""
    if error is None:
        return 200
    if isinstance(error, Unauthenticated):
        return 401
    return _STATUS_BY_CODE.get(error.code, 503 if error.transient else 500)


def safe_redirect_path(path: str | None, default: str = "/home") -> str:
    """Return the path if it leads to a page of this server, otherwise the default."""
    # Browsers read `//host` and `/\host` as another host, and drop control characters before they decide.
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")) or any(ord(char) < 33 for char in path):
        return default
    return path
