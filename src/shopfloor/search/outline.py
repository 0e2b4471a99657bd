"""Outlines: the signatures in a file or a folder, nested, with as much detail as fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from shopfloor.domain.file_kinds import detect_language
from shopfloor.search.chunker import Definition, list_definitions

MAX_OUTLINED_FILES = 400
"""Files whose definitions are looked at for one outline: about a second. More of them never fit into a response."""

MAX_OUTLINED_BYTES = 4_000_000
"""Bytes of files whose definitions are looked at for one response. Each million takes up to 0.4 s of CPU."""

CHARS_PER_TOKEN = 4
_ENDINGS = " :{=\t"


class Detail(IntEnum):
    """How much an outline of a folder says, the most first."""

    MEMBERS = 0
    TOP_LEVEL = 1
    NAMES = 2
    FILES = 3
    FOLDERS = 4


@dataclass(frozen=True, slots=True)
class Outline:
    """The text of an outline, and how much it says."""

    text: str
    detail: Detail
    is_cut: bool = False


def outline_file(path: str, data: bytes) -> str:
    """Return the signatures in a file, one per line and nested, each after the number of its line."""
    return "\n".join(_format_definitions(list_definitions(detect_language(path), data), Detail.MEMBERS))


def outline_within(path: str, data: bytes, budget: int) -> Outline:
    """Return the signatures in a file: all of them, or else those at the top level, cut at `budget` characters."""
    definitions = list_definitions(detect_language(path), data)
    lines: list[str] = []
    for detail in (Detail.MEMBERS, Detail.TOP_LEVEL):
        lines = _format_definitions(definitions, detail)
        if _measure(lines) <= budget:
            return Outline("\n".join(lines), detail)
    kept = _cut(lines, budget)
    return Outline("\n".join(kept), Detail.TOP_LEVEL, is_cut=True)


def outline_folder(paths: Sequence[str], contents: dict[str, bytes], budget: int) -> Outline:
    """Return the outline of files, with the most detail that fits into `budget` characters.

    `contents` may lack files that cannot be read. Without any, paths are listed, or counted by folder.
    """
    definitions = {path: list_definitions(detect_language(path), data) for path, data in contents.items()}
    if contents:
        for detail in (Detail.MEMBERS, Detail.TOP_LEVEL, Detail.NAMES):
            lines = _format_files(paths, definitions, detail)
            if _measure(lines) <= budget:
                return Outline("\n".join(lines), detail)
    if _measure(list(paths)) <= budget:
        return Outline("\n".join(paths), Detail.FILES)
    # The deepest folders that fit: the caller asks again for one of them.
    deepest = max(path.count("/") for path in paths)
    lines = []
    for depth in range(deepest, 0, -1):
        lines = _count_by_folder(paths, depth)
        if _measure(lines) <= budget:
            return Outline("\n".join(lines), Detail.FOLDERS)
    kept = _cut(lines or list(paths), budget)
    return Outline("\n".join(kept), Detail.FOLDERS, is_cut=True)


def _format_files(paths: Sequence[str], definitions: dict[str, list[Definition]], detail: Detail) -> list[str]:
    lines = []
    for path in paths:
        own = definitions.get(path, [])
        if detail == Detail.NAMES:
            names = ", ".join(dict.fromkeys(each.name for each in own if each.depth == 0))
            lines.append(f"{path}: {names}" if names else path)
        else:
            lines += [path, *(f"  {line}" for line in _format_definitions(own, detail))]
    return lines


def _format_definitions(definitions: Sequence[Definition], detail: Detail) -> list[str]:
    shown = [each for each in definitions if detail == Detail.MEMBERS or each.depth == 0]
    return [f"{each.line}: {'  ' * each.depth}{(each.signature or each.name).rstrip(_ENDINGS)}" for each in shown]


def _count_by_folder(paths: Sequence[str], depth: int) -> list[str]:
    """Return each folder up to that depth with the number of files below it, and the files above that depth."""
    counts = Counter("/".join(path.split("/")[:depth]) for path in paths)
    whole = set(paths)
    return [place if place in whole else f"{place}/ ({count} files)" for place, count in sorted(counts.items())]


def _measure(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines)


def _cut(lines: Sequence[str], budget: int) -> list[str]:
    kept = []
    for line in lines:
        budget -= len(line) + 1
        if budget < 0:
            break
        kept.append(line)
    return kept
