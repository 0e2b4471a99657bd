"""Icons as inline SVG: no script, no inline style, no request. Colors are classes in the style sheets."""

from __future__ import annotations

import re
from zlib import crc32

from markupsafe import Markup, escape

HUES = 8

# Drawn with a line width of 1.5 in a square of 16.
_LINES = {
    "home": "M2.5 7 8 2.5 13.5 7v6a.5.5 0 0 1-.5.5h-3V10H6v3.5H3a.5.5 0 0 1-.5-.5z",
    "inbox": "M2.5 9.5 4 3.5h8l1.5 6v3a1 1 0 0 1-1 1h-9a1 1 0 0 1-1-1zh3.5a2 2 0 0 0 4 0h3.5",
    "tasks": "M4.5 2.5h7a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2h-7a2 2 0 0 1-2-2v-7a2 2 0 0 1 2-2zM5.5 8l1.9 1.9L10.8 6",
    "agents": "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c0-2.4 2.2-3.5 5-3.5s5 1.1 5 3.5",
    "runs": "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM6.9 5.8v4.4L10.3 8z",
    "activity": "M2 8.5h2.5l2-5 3 9 2-4H14",
    "knowledge": "M8 4C6.5 3 4.5 2.8 2.5 3v9c2-.2 4 0 5.5 1 1.5-1 3.5-1.2 5.5-1V3c-2-.2-4 0-5.5 1zv9",
    "settings": "M2.5 4.5H8M12.5 4.5h1M2.5 11.5h1M8 11.5h5.5M10.2 6.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4z"
    "M5.8 13.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4z",
    "search": "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3 14 14",
    "plus": "M8 3v10M3 8h10",
    "copy": "M7 5.5h5a1.5 1.5 0 0 1 1.5 1.5v5a1.5 1.5 0 0 1-1.5 1.5H7A1.5 1.5 0 0 1 5.5 12V7A1.5 1.5 0 0 1 7 5.5z"
    "M10.5 5.5V4A1.5 1.5 0 0 0 9 2.5H4A1.5 1.5 0 0 0 2.5 4v5A1.5 1.5 0 0 0 4 10.5h1.5",
    "check": "M3 8.5l3.2 3.2L13 4.8",
    "close": "M4 4l8 8M12 4l-8 8",
    "menu": "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
    "chevron": "M6 4l4 4-4 4",
    "back": "M10 3.5 5.5 8l4.5 4.5",
    "mail": "M3.5 3.5h9A1.5 1.5 0 0 1 14 5v6a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 2 11V5a1.5 1.5 0 0 1 1.5-1.5z"
    "M2.5 5 8 9l5.5-4",
    "question": "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM6.4 6.4A1.7 1.7 0 1 1 8.8 8c-.6.3-.8.6-.8 1.1M8 11.2v.1",
    "permission": "M8 2.2 13 4v4c0 3-2.1 5-5 6-2.9-1-5-3-5-6V4zM6 8l1.5 1.5L10.2 6.6",
    "alert": "M8 2.5 14 13H2zM8 6.5v3M8 11.3v.1",
    "key": "M5.5 13.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM7.7 8.3 13 3M10.8 5.2l1.8 1.8",
    "bell": "M4 11V7a4 4 0 0 1 8 0v4l1.2 1.5H2.8zM6.8 14h2.4",
    "clock": "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM8 5v3.2l2.2 1.3",
    "reply": "M6.5 4 3 7.5 6.5 11M3.2 7.5H9a4 4 0 0 1 4 4v1",
    "forward": "M9.5 4 13 7.5 9.5 11M12.8 7.5H7a4 4 0 0 0-4 4v1",
    "branch": "M4.5 5.5v5M4.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM4.5 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z"
    "M11.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM11.5 5.5c0 3-7 2-7 5",
    "comment": "M3.5 3h9A1.5 1.5 0 0 1 14 4.5v5a1.5 1.5 0 0 1-1.5 1.5H8l-3 2.5V11H3.5A1.5 1.5 0 0 1 2 9.5v-5A1.5 1.5 0 0 1"
    " 3.5 3z",
    "epic": "M8 2 14 5 8 8 2 5zM2 8l6 3 6-3M2 11l6 3 6-3",
    "decision": "M4 14V2.5M4 3h8l-2 2.5L12 8H4",
    "page": "M4.5 2.5h5l2.5 2.5v8a.5.5 0 0 1-.5.5h-7A.5.5 0 0 1 4 13V3a.5.5 0 0 1 .5-.5zM9.5 2.5V5H12",
}
_FILLED = {
    "more": "M3.5 6.8a1.2 1.2 0 1 1 0 2.4 1.2 1.2 0 0 1 0-2.4zM8 6.8a1.2 1.2 0 1 1 0 2.4 1.2 1.2 0 0 1 0-2.4z"
    "M12.5 6.8a1.2 1.2 0 1 1 0 2.4 1.2 1.2 0 0 1 0-2.4z",
}

_RING = '<circle class="ring" cx="8" cy="8" r="6"/>'
_DISC = '<circle class="disc" cx="8" cy="8" r="6.75"/>'
_DASHED = '<circle class="ring dashed" cx="8" cy="8" r="6"/>'
_HALF = _RING + '<path class="disc" d="M8 4.5a3.5 3.5 0 0 1 0 7z"/>'
_MOST = _RING + '<path class="disc" d="M8 8V4.5A3.5 3.5 0 1 1 4.5 8z"/>'
_BARRED = _RING + '<path class="ring" d="M5.2 8h5.6"/>'
_CHECKED = _DISC + '<path class="mark" d="M5.2 8.2l2 2 3.7-4.1"/>'
_CROSSED = _DISC + '<path class="mark" d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4"/>'
_PLAYING = _RING + '<path class="disc" d="M6.6 5.4v5.2L10.8 8z"/>'
_PAUSED = _RING + '<path class="ring" d="M6.5 6v4M9.5 6v4"/>'
_DOT = '<circle class="disc" cx="8" cy="8" r="4"/>'
_CIRCLE = '<circle class="ring" cx="8" cy="8" r="3.5"/>'

# The shape of each state of a task, an epic, a run, an agent or a token. Its color is a class in desk.css.
_STATES = {
    "pending": _DASHED,
    "planning": _DASHED,
    "assigned": _RING,
    "in-progress": _HALF,
    "review": _MOST,
    "blocked": _BARRED,
    "completed": _CHECKED,
    "failed": _CROSSED,
    "cancelled": _CROSSED,
    "deleted": _CROSSED,
    "stopped": _CROSSED,
    "stopping": _CROSSED,
    "running": _PLAYING,
    "active": _PLAYING,
    "interrupted": _PAUSED,
    "stuck": _BARRED,
    "paused": _PAUSED,
    "working": _DOT,
    "waiting": _DOT,
    "silent": _DOT,
    "idle": _CIRCLE,
    "retired": _CIRCLE,
}


def icon(name: str) -> Markup:
    """Draw an icon. It is decorative: a word is beside it, or in the name of its button."""
    if filled := _FILLED.get(name):
        return Markup(f'<svg class="icon filled" viewBox="0 0 16 16" aria-hidden="true"><path d="{filled}"/></svg>')  # nosec B704 # constants
    return Markup(f'<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="{_LINES[name]}"/></svg>')  # nosec B704 # constants


def state_icon(state: str) -> Markup:
    """Draw the state of something; screen readers read the word."""
    words = state.lower().replace("_", " ").replace("-", " ")
    kind = re.sub(r"[^a-z]+", "-", state.lower())
    shape = _STATES.get(kind, _CIRCLE)
    return Markup(  # nosec B704 # the state is escaped, the shapes are constants
        f'<svg class="state-icon {kind}" viewBox="0 0 16 16" role="img" aria-label="{escape(words)}">'
        f"<title>{escape(words)}</title>{shape}</svg>"
    )


def initials(name: str) -> str:
    """Return `B3` for builder-3, `DW` for docs-writer, `L` for lead."""
    parts: list[str] = re.findall(r"\d+|[^\W\d_]+", name)
    if not parts:
        return name[:1].upper()
    last = parts[-1] if parts[-1].isdigit() else parts[-1][0]
    return (parts[0][0] + (last[-2:] if len(parts) > 1 else "")).upper()


def avatar(name: str) -> Markup:
    """Draw the initials of an agent or user, in a color that depends only on the name. The name is written beside
    it."""
    hue = crc32(name.encode("utf-8", "surrogatepass")) % HUES
    letters = initials(name)
    # Three characters would touch the edge of the circle.
    kind = "avatar narrow" if len(letters) > 2 else "avatar"
    return Markup(f'<span class="{kind} hue-{hue}" aria-hidden="true">{escape(letters)}</span>')  # nosec B704 # escaped
