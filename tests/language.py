"""The rules of plain English, and the places that break them.

    python -m tests.language               # every place that breaks a rule, as file:line: text
    python -m tests.language RULE [PATH]   # those of one rule, and of one file or folder

`tests/test_language.py` compares them with the places that are allowed.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
MAX_LINE = 120

SUFFIXES = {".py", ".md", ".html", ".css", ".js", ".yaml", ".toml", ".sh", ""}
NOT_OURS = {
    "LICENSE": "the text of the licence",
    "CHANGELOG.md": "names what was renamed by its old name",
    "tests/language.py": "the rules themselves",
    "tests/test_language.py": "samples that break them",
    "scripts/code-figures": "counts some of these words",
    "tests/transports/attack/": "a copy of cases that are written elsewhere",
    "bench/questions/training/": "questions as people ask them, in lay words",
    "tests/contracts/": "quotes the contracts word for word",
    "src/shopfloor/store/migrations/": "an applied migration is never changed",
    ".gitignore": "patterns of files",
}

SEED_TOOLSETS = {"factory", "todo", "todo_direct", "context", "loop"}
"""Toolsets whose tool descriptions are fixed by their contract; there a docstring is a description."""


def _match_words(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


def _split_words(words: str) -> frozenset[str]:
    return frozenset(words.split())


PHRASES: dict[str, tuple[re.Pattern[str], str]] = {
    "door": (_match_words("doors?|indoors"), "transport"),
    "room": (_match_words("rooms?"), "toolset"),
    "manners": (_match_words("manners"), "contract"),
    "the way of a call": (_match_words("(?:the )?way of a call|on (?:its|their) way|whole way"), "pipeline, request"),
    "walk": (_match_words("walk(?:s|ed|ing)?(?: through)? (?:the|that|this|its)"), "run"),
    "deed": (_match_words("deeds?"), "operation"),
    "tell": (_match_words("tells?|told|telling"), "emit, notify, report, say"),
    "stir": (_match_words("stir(?:s|red|ring)?|rous(?:e|es|ed|ing)"), "notify, wake"),
    "hire": (_match_words("hir(?:e|es|ed|ing)"), "create"),
    "bury": (_match_words("bur(?:y|ies|ied|ying)"), "reap"),
    "leave": (_match_words("(?:asks?|asked|asking|takes?|gives?|given|has|have|without|by) leave|leave (?:to|for|of)"), "permission"),
    "stands in": (_match_words("st(?:and|ands|ood|anding) in(?! for)"), "is in, is included in"),
    "lies in": (_match_words("(?:lie|lies|lay|lying) in"), "is in"),
    "goes on": (_match_words("(?:go|goes|went|going|gone) on"), "continues"),
    "anew": (_match_words("anew"), "again"),
    "for good": (_match_words(r"for good(?! (?:reason|measure)s?)"), "permanently"),
    "in good order": (_match_words("in good order"), "cleanly"),
    "whole or not at all": (_match_words("whole or not at all|wholly or not at all"), "atomically"),
    "a minute": (_match_words(r"(?<!within )(?<!half )(?<!once )(?:calls?|turns?|times|orders|requests|\d+|so many) a minute"), "per minute"),
    "at hand": (_match_words("at hand"), "available"),
    "somebody": (_match_words("somebody|nobody|whoever|whatever|whomever|whosoever"), "a user, no caller, the caller that"),
    "it is no": (_match_words("(?:it|that|this|which|what|who) (?:is|was) no(?! (?:longer|more|less|such|one|worse|better))"), "it is not a"),
    "so many": (_match_words("so many(?! (?:that|of))"), "maximum"),
    "web hook": (_match_words("web[ -]hooks?"), "webhook"),
}  # fmt: skip
"""Words of the first version that a native reader stumbled over, and what to say instead (STYLE.md, last paragraph)."""

ANY_PHRASE = re.compile("|".join(pattern.pattern for pattern, _ in PHRASES.values()), re.IGNORECASE)

IRREGULAR_PARTICIPLES = _split_words(
    "told shown asked made given taken held kept seen found written sent built left lost said known begun done gone "
    "hidden drawn bound heard meant met paid spent stood understood thrown woken chosen broken spoken born worn torn "
    "sold brought bought caught taught thought fed led fought hung laid lent lit sunk grown fallen risen driven ridden "
    "eaten beaten forgotten gotten frozen stolen sworn shaken hewn sought dealt felt slept swept won sung rung become "
    "overcome withdrawn mistaken rewritten reached"
)
VERBS_IN_ED = _split_words("need feed seed embed speed shed exceed proceed succeed bleed breed wed")
NOUNS_IN_ED = {"bed", "red", "deed", "weed", "greed", "creed", "sled"}

NOT_IMPERATIVE = _split_words(
    "a an the this that these those it its he she they their his her our we you your my i "
    "what which who whose whom whether how when where why while as if in on at by of for from with without within "
    "to into until since after before between under over among about against because than then there here "
    "all every each any some no not none nothing nobody somebody everybody anybody everything anything something "
    "one two three many more most much few several only same another other others both either neither "
    "true false yes so such once now never always still just also and or but nor too very "
    "whoever whatever again is are was were has have had may might can could must should would will"
)
VERBS_IN_S = _split_words("focus canvas bias")


@dataclass(frozen=True)
class Break:
    """One place that breaks a rule."""

    path: str
    line: int
    rule: str
    text: str


@cache
def list_files() -> tuple[str, ...]:
    """List the files of the checkout that the rules apply to."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(
        path
        for path in sorted(set(listed.stdout.splitlines()))
        if Path(path).suffix in SUFFIXES and not path.startswith(tuple(NOT_OURS)) and (CHECKOUT / path).is_file()
    )


@cache
def find_breaks() -> tuple[Break, ...]:
    """Check every file against every rule."""
    return tuple(each for path in list_files() for each in check_file(path, (CHECKOUT / path).read_text("utf-8")))


def check_file(path: str, text: str) -> Iterator[Break]:
    """Check one file: its path, its words, and the shapes that its kind of file has."""
    yield from _check_words(path, 0, " ".join(re.split(r"[/_.-]", path)))
    if path.endswith(".py") or text.startswith("#!/usr/bin/env python"):
        nodes = list(ast.walk(ast.parse(text)))
        yield from _check_python_words(path, text, nodes)
        yield from _check_functions(path, nodes)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            yield from _check_words(path, number, line)
    if path.endswith((".md", ".html", ".css", ".js")):
        yield from _check_lines(path, text)


def _check_words(path: str, line: int, text: str) -> Iterator[Break]:
    if ANY_PHRASE.search(text) is None:
        return
    for rule, (pattern, _) in PHRASES.items():
        for _ in pattern.findall(text):
            yield Break(path, line, rule, text.strip())


def _check_python_words(path: str, text: str, nodes: list[ast.AST]) -> Iterator[Break]:
    """Check comments, strings and the names that the file defines; names that it only uses count where they come from."""
    if "#" in text:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield from _check_words(path, token.start[0], token.string)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for offset, line in enumerate(node.value.splitlines()):
                yield from _check_words(path, node.lineno + offset, line)
    for number, name in _find_names(nodes):
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
        yield from _check_words(path, number, " ".join(words))


def _find_names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def _check_functions(path: str, nodes: list[ast.AST]) -> Iterator[Break]:
    toolset = re.match(r"src/shopfloor/toolsets/(\w+)", path)
    described = toolset is not None and toolset[1] in SEED_TOOLSETS
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
        if "property" in decorators or "fixture" in decorators:
            continue  # both name a value
        if is_participle(node.name):
            yield Break(path, node.lineno, "participle name", f"def {node.name}")
        docstring = ast.get_docstring(node)
        if docstring and not is_imperative(docstring) and not (described and "tool" in decorators):
            yield Break(path, node.lineno, "noun docstring", f"def {node.name}: {docstring.splitlines()[0]}")


def is_participle(name: str) -> bool:
    """Report whether a function is named by a bare past participle, such as `told` or `_opened`."""
    word = name.strip("_")
    return word in IRREGULAR_PARTICIPLES or (
        word.isalpha() and word.islower() and word.endswith("ed") and word not in VERBS_IN_ED | NOUNS_IN_ED
    )


def is_imperative(docstring: str) -> bool:
    """Report whether a docstring may begin with an imperative. Words that cannot be one are known; nouns are not."""
    start = re.match(r"[A-Za-z]+", docstring.strip())
    if start is None:
        return True  # a code sample or a quotation
    word = start[0].lower()
    if word in NOT_IMPERATIVE or is_participle(word):
        return False
    return not word.endswith("s") or word.endswith("ss") or word in VERBS_IN_S


def _check_lines(path: str, text: str) -> Iterator[Break]:
    for number, line in enumerate(text.splitlines(), 1):
        a_row = path.endswith(".md") and line.lstrip().startswith("|")  # Markdown cannot break the row of a table
        if len(line) > MAX_LINE and not a_row:
            yield Break(path, number, "long line", f"{line.strip()[:80]}…")


def advise(rule: str) -> str:
    """Say what to write instead."""
    if rule in PHRASES:
        return f"say: {PHRASES[rule][1]}"
    return {
        "participle name": "name the function with a verb and a noun",
        "noun docstring": "begin the docstring with an imperative: what the function does",
        "long line": f"break the line at {MAX_LINE} characters",
    }[rule]


def main(arguments: list[str]) -> None:
    """Print the places that break a rule."""
    rule, path = (*arguments, "", "")[:2]
    for each in find_breaks():
        if rule in (each.rule, "") and each.path.startswith(path):
            print(f"{each.path}:{each.line}: [{each.rule}] {each.text[:140]}  → {advise(each.rule)}")


if __name__ == "__main__":
    main(sys.argv[1:])
