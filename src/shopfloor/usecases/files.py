"""Reading files of the project with their imports, and searching them by pattern."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from shopfloor.domain.file_kinds import detect_language, detect_module, detect_role
from shopfloor.domain.file_text import count_lines, decode_text
from shopfloor.domain.grep import GrepResult
from shopfloor.errors import ClientError, FileNotFound, InvalidInput
from shopfloor.gateways.import_parser import parse_imports
from shopfloor.search.outline import (
    MAX_OUTLINED_BYTES,
    MAX_OUTLINED_FILES,
    Outline,
    outline_file,
    outline_folder,
    outline_within,
)
from shopfloor.usecases.external import ExternalContext

MAX_DEPENDENCY_CHARS = 80_000
"""Characters of dependencies in one response, in addition to the file itself."""

MAX_CHARACTERS = 40_000
"""Characters of a file in one response, unless the caller gives the last line: about 10,000 tokens."""

MAX_OUTLINE_CHARS = 16_000
"""Characters of an outline, or of the signatures of all dependencies: about 4,000 tokens."""

MAX_DEPENDENCIES = 50
SUGGESTED_PATHS = 3


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file, or some of its lines."""

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
    truncated: bool

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Dependency:
    """A file that another file imports, or the reason why it cannot be read."""

    path: str
    content: str = ""
    truncated: bool = False
    error: str | None = None


def read_file(
    external: ExternalContext, path: str, start_line: int | None = None, end_line: int | None = None
) -> FileContent:
    """Read a file or the given lines of it, and count the access in a later commit."""
    try:
        file = external.gateways.files.read(path)
    except FileNotFound:
        name = path.rstrip("/").rpartition("/")[2]
        near = external.read(lambda uow: uow.index.paths_named(name, SUGGESTED_PATHS))
        if not near:
            raise
        raise FileNotFound(path=path, hint=f"Did you mean {' or '.join(near)}?") from None
    text, invalid_utf8 = decode_text(file.data, path)
    lines = count_lines(text)
    first, last = start_line or 1, min(end_line or lines, lines)
    content = text
    if start_line is not None or end_line is not None:
        if first > max(lines, 1):
            raise InvalidInput(f"The first line is beyond the last line, {lines}", rule="beyond_end", lines=lines)
        if last < first and lines:
            raise InvalidInput("The last line must not be before the first", rule="before_start")
        content = "".join(f"{line}\n" for line in text.split("\n")[first - 1 : last])
        # A file without a trailing newline gets none here either.
        if last >= lines and not text.endswith("\n"):
            content = content[:-1]
    truncated = end_line is None and len(content) > MAX_CHARACTERS
    if truncated:
        # Cut after a whole line, so that the next line can be requested. A longer line is itself cut.
        content = content[: content.rfind("\n", 0, MAX_CHARACTERS) + 1] or content[:MAX_CHARACTERS]
        last = first + max(content.count("\n"), 1) - 1
    # A later commit counts it, together with the log row: reading must not wait for the disk.
    external.on_finish(lambda uow: uow.file_accesses.count(file.path, uow.now))
    return FileContent(
        path=file.path,
        content=content,
        data=file.data,
        lines=lines,
        start_line=first,
        end_line=last,
        language=detect_language(file.path),
        module=detect_module(file.path),
        role=detect_role(file.path),
        modified=file.modified,
        invalid_utf8=invalid_utf8,
        truncated=truncated,
    )


@dataclass(frozen=True, slots=True)
class FolderOutline:
    """The outline of a folder, and the number of its files."""

    path: str
    outline: Outline
    files: int


def outline_path(external: ExternalContext, path: str) -> tuple[FileContent, Outline] | FolderOutline:
    """Outline a file, or all files below a folder, with the most detail that fits."""
    gateways = external.gateways
    if not gateways.files.has_folder(path):
        content = read_file(external, path)
        return content, outline_within(content.path, content.data, MAX_OUTLINE_CHARS)
    external.search.refresh(external)
    folder = "/".join(gateways.files.rules.check(path))
    paths = external.read(lambda uow: uow.index.paths_below(folder))
    if not paths:
        raise FileNotFound("No indexed files in this folder", path=path)
    contents: dict[str, bytes] = {}
    left = MAX_OUTLINED_BYTES
    for each in paths if len(paths) <= MAX_OUTLINED_FILES else ():
        with suppress(ClientError):
            data = gateways.files.read(each).data
            left -= len(data)
            if left < 0:
                break
            contents[each] = data
    return FolderOutline(folder or ".", outline_folder(paths, contents, MAX_OUTLINE_CHARS), len(paths))


def load_dependencies(external: ExternalContext, file: FileContent, *, signatures: bool = False) -> list[Dependency]:
    """Return the project files that a file imports, with as much of their content or outline as the budget allows."""
    imports = parse_imports(file.path, file.language, file.data)
    paths = external.gateways.import_resolver.resolve(file.path, file.language, imports)
    budget = MAX_OUTLINE_CHARS if signatures else MAX_DEPENDENCY_CHARS
    left = MAX_OUTLINED_BYTES
    dependencies = []
    for path in paths[:MAX_DEPENDENCIES]:
        # Once the response is full, reading more is pointless: 50 files of a megabyte took 21 s to outline.
        if budget <= 0 or left <= 0:
            dependencies.append(Dependency(path, truncated=True))
            continue
        try:
            data = external.gateways.files.read(path).data
            left -= len(data)
            text = outline_file(path, data) if signatures else decode_text(data, path)[0]
        except ClientError as error:
            dependencies.append(Dependency(path, error=error.message))
            continue
        # Cut after a whole line. Later files are still listed, without content, so that the caller can read them.
        content = text if len(text) <= budget else text[: text.rfind("\n", 0, budget) + 1]
        budget = 0 if content and content != text else budget - len(content)
        dependencies.append(Dependency(path, content, truncated=content != text))
    return dependencies


def search_pattern(
    external: ExternalContext, pattern: str, glob: str | None, case_sensitive: bool, limit: int
) -> GrepResult:
    """Return the lines that a regular expression matches."""
    return external.gateways.grep.search(
        pattern, glob=glob, case_sensitive=case_sensitive, limit=limit, is_abandoned=external.is_abandoned
    )
