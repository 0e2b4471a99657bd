"""Text from others, made safe for a page: nothing in it acts, and nothing in it is hidden."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup

MAX_MARKDOWN_CHARACTERS = 64 * 1024
MAX_PREVIEW_CHARACTERS = 2000
_ALLOWED_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)

# Control characters except tab and line feed; marks that change the direction of text; characters without width.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
# Ids of tasks, epics and mail, and paths of project files.
_REFERENCE = re.compile(
    r"(?<![\w/-])(?:(?P<kind>task|epic|mail)-(?P<number>[1-9][0-9]{0,17})(?![\w-])"
    # A path begins only where no part of a path precedes it. Searching from each dot to the end would take quadratic
    # time.
    r"|(?<!\.)(?P<path>(?:[\w.-]+/)+[\w.-]*\w\.[a-z][a-z0-9]{0,4})(?![\w/]))"
)
_PAGES = {"task": "/tasks/{0}", "epic": "/boards/epic/{0}", "mail": "/inbox/mail-{0}"}
_TABLE_HEAD = re.compile(r"<thead>.*?</thead>", re.DOTALL)
_LINE_END = re.compile(r"<br />|</(?:p|li|tr|h[1-6]|pre)>")
_SENTENCE_ENDS = (".", "!", "?", ":", ";", ",")
_EMOJI_JOINER = re.compile("(?<=[^\x00-\x7f])(?:\ufe0f|\u200d)")


def reveal_hidden(text: str) -> str:
    """Spell out hidden characters, such as `[U+202E]`; keep those that join an emoji."""
    if text.isascii() and text.isprintable():
        return text
    joiners = {match.start() for match in _EMOJI_JOINER.finditer(text)}
    return _HIDDEN.sub(lambda match: match[0] if match.start() in joiners else f"[U+{ord(match[0]):04X}]", text)


def reveal_if_text(value: Any) -> Any:
    """Spell out hidden characters in text, and return everything else unchanged, including markup."""
    return reveal_hidden(value) if type(value) is str else value


def render_markdown(text: str) -> Markup:
    """Render Markdown without HTML and images; links may lead only to the web or to mail."""
    return Markup(_MARKDOWN.render(reveal_hidden(text[:MAX_MARKDOWN_CHARACTERS])))  # nosec B704 # the text is escaped


def strip_markdown(text: str) -> str:
    """Return the words of a Markdown text on one line, for a preview; for a table, its rows without the header.

    A line that does not end a sentence is separated from the next one by a dot.
    """
    html: str = render_markdown(text[:MAX_PREVIEW_CHARACTERS])
    if "<tbody>" in html:
        html = _TABLE_HEAD.sub("", html)
    lines = [Markup(line).striptags() for line in _LINE_END.split(html)]  # nosec B704 # the text is escaped
    filled = [line for line in lines if line]
    parts = [line if line.endswith(_SENTENCE_ENDS) else f"{line} ·" for line in filled[:-1]]
    return " ".join([*parts, *filled[-1:]])


def format_json(value: Any) -> str:
    """Format a value as indented JSON, and return text unchanged; the template escapes it."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


class _Renderer(RendererHTML):
    """Marks links to other sites as external, and leaves out the inline styles of table cells, which the pages' policy forbids."""

    def link_open(self, tokens: list[Token], at: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        # Only _link_references makes links to pages of this site: other links must lead to the web or to mail.
        if not str(tokens[at].attrGet("href")).startswith("/"):
            tokens[at].attrSet("rel", "nofollow noopener noreferrer")
            tokens[at].attrSet("target", "_blank")
            tokens[at].attrSet("class", "external")
        return str(self.renderToken(tokens, at, options, env))  # type: ignore[arg-type]

    def td_open(self, tokens: list[Token], at: int, options: Mapping[str, Any], env: Mapping[str, Any]) -> str:
        # The Content-Security-Policy of the pages forbids inline styles.
        tokens[at].attrs.pop("style", None)
        return str(self.renderToken(tokens, at, options, env))  # type: ignore[arg-type]

    th_open = td_open


def _link_references(state: StateCore) -> None:
    """Link `task-18`, `mail-6`, `epic-2` and `src/x.py`, outside other links."""
    for block in state.tokens:
        if block.type != "inline" or block.children is None:
            continue
        children: list[Token] = []
        depth = 0
        for token in block.children:
            depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            children += _split_references(token) if depth == 0 and token.type in ("text", "code_inline") else [token]
        block.children = children


def _split_references(token: Token) -> list[Token]:
    if token.type == "code_inline":
        found = _REFERENCE.fullmatch(token.content)
        return [token] if found is None else _make_link(found, token)
    parts: list[Token] = []
    at = 0
    for match in _REFERENCE.finditer(token.content):
        parts += [_make_text(token.content[at : match.start()]), *_make_link(match, _make_text(match[0]))]
        at = match.end()
    return [*parts, _make_text(token.content[at:])] if parts else [token]


def _make_link(match: re.Match[str], inside: Token) -> list[Token]:
    page = _PAGES[match["kind"]].format(match["number"]) if match["kind"] else f"/knowledge?q={quote(match['path'])}"
    return [Token("link_open", "a", 1, attrs={"href": page}), inside, Token("link_close", "a", -1)]


def _make_text(content: str) -> Token:
    return Token("text", "", 0, content=content)


_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer)
_MARKDOWN.enable("table").enable("strikethrough").disable(["image", "html_inline", "html_block"])
_MARKDOWN.validateLink = lambda url: _ALLOWED_LINK.match(url) is not None  # type: ignore[method-assign]
_MARKDOWN.core.ruler.push("references", _link_references)
