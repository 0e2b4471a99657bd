"""Tools that read and search the files of the project."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.times import format_iso
from shopfloor.errors import ImportParseError
from shopfloor.search.outline import Detail, Outline
from shopfloor.toolkit import Json
from shopfloor.toolsets.context.contract import toolset
from shopfloor.usecases import files
from shopfloor.usecases.external import ExternalContext

Path = Annotated[str, Field(description="File path relative to project root", min_length=1)]
IncludeDeps = Annotated[bool, Field(description="Include level 1 dependencies (imports)")]
MaxDepth = Annotated[int, Field(description="Dependency tree depth, 0 or 1; default 1", ge=0, le=1)]
Line = Annotated[int | None, Field(description="First line, from 1", ge=1)]
LastLine = Annotated[int | None, Field(description="Last line", ge=1)]
View = Annotated[Literal["outline"] | None, Field(description="Signatures only; also of a folder")]
Deps = Annotated[Literal["signatures"] | None, Field(description="Outlines of imports")]
Pattern = Annotated[
    str, Field(description="Regex pattern to search for (1-200 characters)", min_length=1, max_length=200)
]
FilePattern = Annotated[
    str | None, Field(description='Glob pattern to filter files (e.g., "**/*.ts")', min_length=1, max_length=4096)
]
CaseSensitive = Annotated[bool, Field(description="Case-sensitive search")]
Limit = Annotated[int, Field(description="Maximum number of matches to return, 1-100; default 50", ge=1, le=100)]


@toolset.tool("read_file", read_only=True, external=True)
def read_file(
    external: ExternalContext,
    path: Path,
    include_deps: IncludeDeps = False,
    max_depth: MaxDepth = 1,
    start_line: Line = None,
    end_line: LastLine = None,
    view: View = None,
    deps: Deps = None,
) -> Json:
    """Read file content with optional dependency tree loading. Tracks file access for context scoring."""
    outline: Outline | None = None
    if view is not None:
        outlined = files.outline_path(external, path)
        if isinstance(outlined, files.FolderOutline):
            return _folder_to_json(outlined)
        content, outline = outlined
    else:
        content = files.read_file(external, path, start_line, end_line)
    file: Json = {
        "path": content.path,
        "content": content.content if outline is None else outline.text,
        "size": content.size,
        "lines": content.lines,
        "language": content.language,
    }
    is_part = start_line is not None or end_line is not None or content.truncated
    if is_part and outline is None:
        file |= {"startLine": content.start_line, "endLine": content.end_line}
    if content.invalid_utf8:
        file["invalidUtf8"] = True
    metadata = {"module": content.module, "role": content.role, "lastModified": format_iso(content.modified)}
    dependencies: list[Json] = []
    if (include_deps or deps) and max_depth:
        try:
            loaded = files.load_dependencies(external, content, signatures=deps is not None)
            dependencies = [_dependency_to_json(each) for each in loaded]
        except ImportParseError as error:
            # The file itself was read, and is part of the error.
            error.facts |= {"file": file, "metadata": metadata}
            raise
    response: Json = {"file": file, "dependencies": dependencies, "metadata": metadata}
    if outline is not None:
        return response | _describe_outline(outline)
    return response | _describe_rest(content) if content.truncated else response


def _dependency_to_json(dependency: files.Dependency) -> Json:
    body: Json = {"path": dependency.path, "type": "import", "level": 1}
    if dependency.error is not None:
        return body | {"error": dependency.error}
    body["content"] = dependency.content
    return body | {"truncated": True} if dependency.truncated else body


def _folder_to_json(folder: files.FolderOutline) -> Json:
    """Return the outline of a folder in the shape of a file."""
    file: Json = {"path": folder.path, "content": folder.outline.text, "files": folder.files, "language": "text"}
    return {"file": file, "dependencies": [], "metadata": {}} | _describe_outline(folder.outline)


def _describe_outline(outline: Outline) -> Json:
    """Return what an outline omits, and how to see it."""
    left_out = {
        Detail.TOP_LEVEL: "Members are left out",
        Detail.NAMES: "Signatures are left out",
        Detail.FILES: "Definitions are left out",
        Detail.FOLDERS: "Files are left out",
    }.get(outline.detail)
    if outline.is_cut:
        left_out = "The rest does not fit"
    return {} if left_out is None else {"truncated": True, "hint": f"{left_out}; outline a folder or a file below"}


def _describe_rest(content: files.FileContent) -> Json:
    """Return how to continue after a response with only part of the file."""
    if content.end_line < content.lines:
        hint = f"Lines {content.start_line}-{content.end_line} of {content.lines}; continue with startLine"
        return {"truncated": True, "nextStartLine": content.end_line + 1, "hint": f"{hint} {content.end_line + 1}"}
    return {"truncated": True, "hint": f"The line is cut; endLine {content.end_line} returns it whole"}


@toolset.tool("grep_codebase", read_only=True, external=True)
def grep_codebase(
    external: ExternalContext,
    pattern: Pattern,
    file_pattern: FilePattern = None,
    case_sensitive: CaseSensitive = False,
    limit: Limit = 50,
) -> Json:
    """Fast text search across codebase using regex patterns. Fallback when semantic search not available or for exact matches."""
    found = files.search_pattern(external, pattern, file_pattern, case_sensitive, limit)
    response: Json = {
        "matches": [
            {
                "file": match.file,
                "line": match.line,
                "column": match.column,
                "text": match.text,
                "context": {"before": list(match.before), "after": list(match.after)},
            }
            for match in found.matches
        ],
        "pattern": pattern,
        "totalMatches": found.total,
        "filesSearched": found.files_searched,
        "searchTime": found.milliseconds,
    }
    if found.truncated:
        response |= {"truncated": True, "hint": "Totals are lower bounds; narrow the pattern or filePattern"}
    if not found.matches and not found.truncated:
        response["message"] = f"No matches found for pattern '{pattern}'"
    return response
