"""The overviews of a file: all of its words, and two texts to embed: its own description, and the names in it.

The model reads 256 tokens, which comments often fill. On six packages of the tuning half, the names alone as a second
embedding raise fused NDCG@10 of questions from 0.815 to 0.836.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shopfloor.domain.chunks import OVERVIEW, Chunk
from shopfloor.domain.file_kinds import detect_language
from shopfloor.domain.tokenizer import split_words
from shopfloor.search.chunker import chunk_file

MAX_HEAD_CHARS = 400
"""Limit for the comments at the beginning of the file, which say what it is for."""
MAX_NAMES_CHARS = 700
MAX_LISTED_NAMES_CHARS = 500
"""Limit for the text that consists of names only: some 120 tokens. The embedding of a longer list is near to
anything."""
MAX_COMMENTS_CHARS = 500
MAX_COMMENT_CHARS = 90
"""Limit for the comment of one definition."""
MIN_COMMENT_CHARS = 3
COMMENTED_CHUNKS = 40
PATH_PARTS = 3

_COMMENT = re.compile(
    r"""\s*(?:\#(?!!|\s*(?:include|define|if|endif|pragma|import))|//+|--+|\{-|;+|%+|/?\*+|\"\"\"|'''|@moduledoc|=head1)+
    \s?(.*)$""",
    re.VERBOSE,
)
_LICENSE = re.compile(r"licen[sc]e|copyright|all rights|warrant|SPDX|permission|redistribut|liabilit", re.IGNORECASE)
_DECORATION = re.compile(r"[*/\-=#]{2,}|<[^>]+>")


def chunk_project_file(path: str, data: bytes) -> list[Chunk]:
    """Return the chunks of a file, with its two overviews first. An empty file has none."""
    chunks = chunk_file(detect_language(path), data)
    if not any(chunk.body.strip() for chunk in chunks):
        return chunks
    last = max(chunk.end_line for chunk in chunks)
    names = " ".join(" ".join((chunk.name.rpartition(".")[2], *chunk.symbols)) for chunk in chunks)
    words = "\n".join(chunk.body for chunk in chunks)
    described, listed = _describe_file(path, chunks)
    return [
        Chunk("", OVERVIEW, 1, last, names, described, searched=words),
        Chunk("", OVERVIEW, 1, last, "", listed, searched=""),
        *chunks,
    ]


def _describe_file(path: str, chunks: Sequence[Chunk]) -> tuple[str, str]:
    """Return two texts to embed: the file's own description, and the names in it."""
    title = " ".join(split_words(" ".join(path.split("/")[-PATH_PARTS:]).rpartition(".")[0] or path))
    head = " ".join(_read_comments(chunk.body, MAX_HEAD_CHARS) for chunk in chunks[:2])[:MAX_HEAD_CHARS]
    names = ", ".join(
        dict.fromkeys(" ".join(split_words(chunk.name.rpartition(".")[2])) for chunk in chunks if chunk.name)
    )
    comments = (_read_comments(chunk.body, MAX_COMMENT_CHARS) for chunk in chunks[2:COMMENTED_CHUNKS])
    rest = " ".join(filter(None, comments))[:MAX_COMMENTS_CHARS]
    return f"{title}. {head}. {names[:MAX_NAMES_CHARS]}. {rest}", f"{title}. {names[:MAX_LISTED_NAMES_CHARS]}"


def _read_comments(body: str, limit: int) -> str:
    """Return the text of comments, without licences and decoration."""
    found: list[str] = []
    length = 0
    for line in body.split("\n"):
        comment = _COMMENT.match(line)
        if comment is None or _LICENSE.search(line):
            continue
        # Shortened first, because the pattern looks for the end of every `<`.
        text = _DECORATION.sub(" ", comment[1][:MAX_COMMENTS_CHARS]).strip(" */-")
        if len(text) > MIN_COMMENT_CHARS:
            found.append(text)
            length += len(text)
        if length > limit:
            break
    return " ".join(found)[:limit]
