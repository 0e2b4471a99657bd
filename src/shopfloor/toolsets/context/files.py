"""Tools that look into the project's files."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.knowledge import Match
from shopfloor.domain.times import iso
from shopfloor.repositories.work import Outside
from shopfloor.toolkit import Json
from shopfloor.toolsets.context.manners import toolset
from shopfloor.usecases import files

Path = Annotated[str, Field(description="File path relative to project root", min_length=1)]
IncludeDeps = Annotated[bool, Field(description="Include level 1 dependencies (imports); default false")]
MaxDepth = Annotated[int, Field(description="Dependency tree depth, 0 or 1; default 1", ge=0, le=1)]
Line = Annotated[int | None, Field(description="First line to read, from 1; default the first", ge=1)]
LastLine = Annotated[int | None, Field(description="Last line to read; default the last", ge=1)]
Pattern = Annotated[
    str, Field(description="Regex pattern to search for (1-200 characters)", min_length=1, max_length=200)
]
FilePattern = Annotated[
    str | None, Field(description='Glob pattern to filter files (e.g., "**/*.ts")', min_length=1, max_length=4096)
]
CaseSensitive = Annotated[bool, Field(description="Case-sensitive search; default false")]
Limit = Annotated[int, Field(description="Maximum number of matches to return, 1-100; default 50", ge=1, le=100)]


@toolset.tool("read_file", read_only=True, outside=True)
def read_file(
    outside: Outside,
    path: Path,
    include_deps: IncludeDeps = False,
    max_depth: MaxDepth = 1,
    start_line: Line = None,
    end_line: LastLine = None,
) -> Json:
    """Read file content with optional dependency tree loading. Tracks file access for context scoring."""
    read = files.read(outside, path, start_line, end_line)
    file: Json = {
        "path": read.path,
        "content": read.content,
        "size": read.size,
        "lines": read.lines,
        "language": read.language,
    }
    if start_line is not None or end_line is not None:
        file |= {"startLine": read.start_line, "endLine": read.end_line}
    if read.invalid_utf8:
        file["invalidUtf8"] = True
    answer: Json = {
        "file": file,
        "dependencies": [],
        "metadata": {"module": read.module, "role": read.role, "lastModified": iso(read.modified)},
    }
    if include_deps and max_depth:
        answer["dependencies"] = files.dependencies(outside, read, answer)
    return answer


@toolset.tool("grep_codebase", read_only=True, outside=True)
def grep_codebase(
    outside: Outside,
    pattern: Pattern,
    file_pattern: FilePattern = None,
    case_sensitive: CaseSensitive = False,
    limit: Limit = 50,
) -> Json:
    """Fast text search across codebase using regex patterns. Fallback when semantic search not available or for exact matches."""
    found = files.grep(outside, pattern, file_pattern, case_sensitive, limit)
    answer: Json = {
        "matches": [_match(match) for match in found.matches],
        "pattern": pattern,
        "totalMatches": found.total,
        "filesSearched": found.files_searched,
        "searchTime": found.milliseconds,
    }
    if found.truncated:
        answer |= {"truncated": True, "hint": "Totals are lower bounds; narrow the pattern or filePattern"}
    if not found.matches and not found.truncated:
        answer["message"] = f"No matches found for pattern '{pattern}'"
    return answer


def _match(match: Match) -> Json:
    return {
        "file": match.file,
        "line": match.line,
        "column": match.column,
        "text": match.text,
        "context": {"before": list(match.before), "after": list(match.after)},
    }
