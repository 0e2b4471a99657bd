"""The Jinja environment of the pages, and the filters that templates print with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension

from shopfloor.domain.text import format_tool_name
from shopfloor.web import charts, graph, icons
from shopfloor.web.saved_filters import set_filter
from shopfloor.web.text import format_json, render_markdown, reveal_if_text, strip_markdown

# The paths, names and icons of the desk's pages.
NAVIGATION = (
    ("/home", "Home", "home"),
    ("/inbox", "Inbox", "inbox"),
    ("/tasks", "Tasks", "tasks"),
    ("/agents", "Agents", "agents"),
    ("/runs", "Runs", "runs"),
    ("/activity", "Activity", "activity"),
    ("/knowledge", "Knowledge", "knowledge"),
    ("/settings/access", "Settings", "settings"),
)
# The path prefixes that belong to each entry of the navigation.
SECTIONS = {href: (f"{href}/",) for href, _, _ in NAVIGATION} | {
    "/tasks": ("/tasks/", "/boards/epic/", "/lists/"),
    "/runs": ("/runs/", "/boards/run/", "/crews"),
    "/settings/access": ("/settings/",),
}


class _StripIndentation(Extension):
    """Strips the indentation of templates from the pages."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        # One tag per line made pages 40 to 70 % larger and rendering up to 10 % slower. Line breaks stay: a line break
        # in a template is always white space in the page.
        return re.sub(r"^[ \t]+", "", source, flags=re.MULTILINE)


def create_environment(static_url: Callable[[str], str]) -> Environment:
    """Create the environment that renders all pages. It escapes every value and reveals hidden characters."""
    templates = Environment(
        loader=PackageLoader("shopfloor.web"),
        # Agents write much of what pages show. Nothing is printed unescaped, and characters that change how text reads
        # are spelled out.
        autoescape=True,
        # A misspelled name in a template is an error in the tests instead of a blank on a page.
        undefined=StrictUndefined,
        finalize=reveal_if_text,
        extensions=[_StripIndentation],
    )
    install_filters(templates)
    templates.globals["static"] = static_url
    return templates


def install_filters(templates: Environment) -> None:
    """Add the filters and functions that templates use."""
    templates.filters |= {
        "counted": format_count,
        "duration": format_duration,
        "field_label": format_field,
        "file_size": format_size,
        "json": format_json,
        "markdown": render_markdown,
        "milliseconds": format_milliseconds,
        "plain": strip_markdown,
        "short_name": short_name,
        "tool_name": format_tool_name,
        "utc": format_utc,
        "without_scheme": strip_scheme,
        "words": format_constant,
    }
    templates.tests["secure_address"] = is_secure_address
    templates.globals |= {
        "avatar": icons.avatar,
        "charts": charts,
        "draw_board_graph": graph.draw_board_graph,
        "icon": icons.icon,
        "navigation": NAVIGATION,
        "query": build_query,
        "with_filter": set_filter,
        "sections": SECTIONS,
        "state_icon": icons.state_icon,
    }


def is_secure_address(text: str) -> bool:
    """Return whether a page may link to this text: an https address."""
    return text.startswith("https://")


def strip_scheme(address: str) -> str:
    """Return github.com/x for https://github.com/x."""
    return address.removeprefix("https://")


def short_name(key: str) -> str:
    """Return builder-1 for agent:builder-1."""
    return key.partition(":")[2] or key


def format_constant(name: str) -> str:
    """Return `in progress` for IN_PROGRESS."""
    return name.lower().replace("_", " ")


def format_field(name: str) -> str:
    """Return `Add depends on` for addDependsOn."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def format_utc(at: str | None) -> str:
    """Format a time for readers without scripts; times.js converts it to the viewer's time zone."""
    return "" if at is None else f"{at[:10]} {at[11:19]} UTC"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, plural unless the number is 1."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_duration(seconds: float | None) -> str:
    """Return `2 h 5 min` for 7500."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def format_milliseconds(duration: float) -> str:
    """Return `0.4 ms` for 0.4, `250 ms` for 250.3, and `30 s` for 30186."""
    if duration < 10:
        return f"{duration:.1f} ms"
    return f"{duration:.0f} ms" if duration < 1000 else format_duration(duration / 1000)


def format_size(size: float) -> str:
    """Return `1.5 kB` for 1500."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} GB"


def build_query(given: Mapping[str, Any], **changes: Any) -> str:
    """Return the query string of the same page with some values changed; leave out empty ones."""
    present = {name: value for name, value in {**given, **changes}.items() if value not in (None, "", False)}
    return f"?{urlencode(present)}"
