"""Text that others wrote, as a page may show it: nothing in it acts, and nothing in it hides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

LONGEST = 64 * 1024
_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)

# Control characters except tab and line feed; marks that turn the direction of text; characters of no width.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_JOINS = re.compile("(?<=[^\x00-\x7f])(?:\ufe0f|\u200d)")


def visible(text: str) -> str:
    """The text with every hidden character spelled out; what joins an emoji stays."""
    if text.isascii() and text.isprintable():
        return text
    kept = {match.start() for match in _JOINS.finditer(text)}
    return _HIDDEN.sub(lambda match: match[0] if match.start() in kept else f"[U+{ord(match[0]):04X}]", text)


def shown(value: Any) -> Any:
    """What a template prints: text made visible, everything else as it is."""
    return visible(value) if type(value) is str else value


def prose(text: str) -> Markup:
    """Markdown, without HTML, images and links to anything but pages and mail."""
    return Markup(_MARKDOWN.render(visible(text[:LONGEST])))  # nosec B704: rendered from escaped text


def pretty(value: Any) -> str:
    """A value as JSON for reading; the template escapes it."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


class _Renderer(RendererHTML):
    """Marks links as not ours, and leaves out the styles that tables would bring: no page allows any."""

    def link_open(self, tokens: list[Token], at: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        tokens[at].attrSet("rel", "nofollow noopener noreferrer")
        tokens[at].attrSet("target", "_blank")
        tokens[at].attrSet("class", "outside")
        return str(self.renderToken(tokens, at, options, env))  # type: ignore[arg-type]

    def _cell(self, tokens: list[Token], at: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        tokens[at].attrs.pop("style", None)
        return str(self.renderToken(tokens, at, options, env))  # type: ignore[arg-type]

    td_open = th_open = _cell


_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer)
_MARKDOWN.enable("table").enable("strikethrough").disable(["image", "html_inline", "html_block"])
_MARKDOWN.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]
