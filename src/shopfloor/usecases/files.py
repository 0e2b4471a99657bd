"""Looking into the project's files: read one, find what it imports, search by pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shopfloor.domain.knowledge import Found
from shopfloor.domain.places import language_of, module_of, role_of
from shopfloor.errors import FileNotFound, ImportsUnreadable, InvalidInput, NotText, Refused
from shopfloor.gateways.files import Files
from shopfloor.gateways.grep import Grep
from shopfloor.gateways.imports import imports_of
from shopfloor.gateways.resolve import Resolver
from shopfloor.repositories.work import Outside

BUDGET = 80_000
"""Characters of dependencies that one answer carries beside the file itself."""

MOST = 50
"""Dependencies that one answer names."""


@dataclass(frozen=True, slots=True)
class Read:
    """A file as an agent reads it."""

    path: str
    content: str
    data: bytes
    lines: int
    start_line: int
    end_line: int
    language: str
    module: str
    role: str
    modified: int
    invalid_utf8: bool

    @property
    def size(self) -> int:
        return len(self.data)


def read(outside: Outside, path: str, start_line: int | None = None, end_line: int | None = None) -> Read:
    """The file, or the wanted lines of it; that it was read is remembered."""
    try:
        file = outside.the(Files).read(path)
    except FileNotFound as error:
        raise _with_suggestion(outside, path, error) from None
    text, invalid = decoded(file.data, path)
    lines = count_lines(text)
    first, last = start_line or 1, min(end_line or lines, lines)
    outside.later(lambda work: work.accesses.note(file.path, work.now))
    return Read(
        path=file.path,
        content=text if start_line is None and end_line is None else _slice(text, first, last, lines),
        data=file.data,
        lines=lines,
        start_line=first,
        end_line=last,
        language=language_of(file.path),
        module=module_of(file.path),
        role=role_of(file.path),
        modified=file.modified,
        invalid_utf8=invalid,
    )


def dependencies(outside: Outside, file: Read, carried: dict[str, Any]) -> list[dict[str, Any]]:
    """The files of this project that the file imports, with their content as far as the budget goes.

    When the imports cannot be parsed, the refusal still carries what was read.
    """
    files = outside.the(Files)
    try:
        imports = imports_of(file.path, file.language, file.data)
    except ImportsUnreadable as error:
        error.facts |= {"file": carried["file"], "metadata": carried["metadata"]}
        raise
    paths = outside.the(Resolver).resolve(file.path, file.language, imports)
    budget = BUDGET
    found = []
    for path in paths[:MOST]:
        dependency: dict[str, Any] = {"path": path, "type": "import", "level": 1}
        try:
            content, _ = decoded(files.read(path).data, path)
        except Refused as error:
            found.append(dependency | {"error": error.message})
            continue
        kept = content if len(content) <= budget else _whole_lines(content[:budget])
        budget -= len(kept)
        found.append(dependency | {"content": kept} | ({} if kept == content else {"truncated": True}))
    return found


def grep(outside: Outside, pattern: str, glob: str | None, case_sensitive: bool, limit: int) -> Found:
    """The lines that the pattern is found in."""
    return outside.the(Grep).search(pattern, glob=glob, case_sensitive=case_sensitive, limit=limit)


def decoded(data: bytes, path: str) -> tuple[str, bool]:
    """The text of a file, byte for byte where it is UTF-8, and whether it is not; binary files are refused."""
    if b"\0" in data:
        raise NotText(path=path, size=len(data), hint="Only text can be read")
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="replace"), True


def count_lines(text: str) -> int:
    """The lines of a text; an empty last one does not count."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def _slice(text: str, first: int, last: int, lines: int) -> str:
    if first > max(lines, 1):
        raise InvalidInput(f"'startLine' is beyond the last line, {lines}", field="startLine", rule="beyond_end")
    if last < first and lines:
        raise InvalidInput("'endLine' must not be before 'startLine'", field="endLine", rule="before_start")
    return "".join(f"{line}\n" for line in text.split("\n")[first - 1 : last])[
        : None if text.endswith("\n") or last < lines else -1
    ]


def _whole_lines(text: str) -> str:
    head, newline, _ = text.rpartition("\n")
    return head + newline


def _with_suggestion(outside: Outside, path: str, error: FileNotFound) -> FileNotFound:
    """The same refusal, naming a file that may have been meant."""
    name = path.rstrip("/").rpartition("/")[2]
    near = outside.read(lambda work: work.index.paths_named(name, 3))
    return FileNotFound(path=path, hint=f"Did you mean {' or '.join(near)}?") if near else error
