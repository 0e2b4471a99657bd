"""The filters of tasks that a browser has saved: a cookie, so that they are links also where no scripts run."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

MAX_FILTERS = 8
MAX_FILTER_CHARACTERS = 60
# Browsers silently drop a cookie of more than 4,096 bytes, and one letter may take twelve.
MAX_COOKIE_BYTES = 3500
MAX_AGE_SECONDS = 365 * 24 * 3600
COOKIE = "shopfloor_filters"


def parse_filters(cookie: str | None) -> list[str]:
    """Return the saved filters. A cookie that another program has written may give none, or meaningless ones."""
    texts = [clean_filter(unquote(each)) for each in (cookie or "").split("|")]
    return list(dict.fromkeys(filter(None, texts)))[:MAX_FILTERS]


def format_filters(texts: list[str]) -> str:
    """Format filters as the value of a cookie. Drop the oldest while it is too large."""
    value = "|".join(quote(text, safe="") for text in texts)
    return value if len(value) <= MAX_COOKIE_BYTES else format_filters(texts[1:])


def clean_filter(text: str) -> str:
    """Return the words of a filter in lower case with single spaces: filters that find the same tasks are equal."""
    return " ".join(text.lower().split())[:MAX_FILTER_CHARACTERS].strip()


def change_filters(texts: list[str], *, save: str = "", remove: str = "") -> list[str]:
    """Return the filters with one added at the end, or without one. A new one replaces the oldest."""
    kept = [text for text in texts if text not in (clean_filter(save), clean_filter(remove))]
    return [*kept, clean_filter(save)][-MAX_FILTERS:] if clean_filter(save) else kept


def set_filter(address: str, text: str) -> str:
    """Return the address of the same page with this filter."""
    parts = urlsplit(address)
    given = {name: value for name, value in parse_qsl(parts.query) if name not in ("text", "cursor")}
    query = urlencode(given | ({"text": text} if text else {}))
    return parts.path + (f"?{query}" if query else "")
