"""What a path says of its file: language, module, role. Tables, read from the top."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath

LANGUAGES = {
    "py": "python", "pyi": "python", "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx",
    "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript", "go": "go", "rs": "rust",
    "java": "java", "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp", "cxx": "cpp", "hh": "cpp", "hpp": "cpp", "hxx": "cpp",
    "rb": "ruby", "rake": "ruby", "php": "php", "cs": "csharp", "kt": "kotlin", "swift": "swift", "scala": "scala",
    "sh": "shell", "bash": "shell", "zsh": "shell", "sql": "sql", "html": "html", "css": "css", "scss": "scss",
    "vue": "vue", "svelte": "svelte", "json": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml", "ini": "ini",
    "cfg": "ini", "xml": "xml", "md": "markdown", "markdown": "markdown", "mdx": "markdown", "rst": "restructuredtext",
    "txt": "text", "proto": "protobuf", "graphql": "graphql", "tf": "terraform", "lua": "lua", "r": "r", "jl": "julia",
    "ex": "elixir", "exs": "elixir", "erl": "erlang", "hs": "haskell", "clj": "clojure", "dart": "dart", "pl": "perl",
}  # fmt: skip

NAMES = {
    "makefile": "makefile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "cmakelists.txt": "cmake",
}

SOURCE_ROOTS = (
    "src/main/java", "src/test/java", "src/main/kotlin", "src/main", "src/test", "src/server", "src/client", "src/lib",
    "src/app", "src", "source", "lib", "app", "server", "client", "pkg", "internal", "cmd", "packages", "apps", "crates",
    "tests", "test", "spec", "examples",
)  # fmt: skip
"""Folders whose subfolders are modules; the longest that fits counts."""

NO_MODULE = "root"
"""The module of files that lie in no folder."""

_JAVA_HOME = re.compile(r"(?:com|org|net|io|dev|edu|gov)/[^/]+/(?=[^/]+/)")

ROLES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern, re.IGNORECASE))
    for role, pattern in (
        ("generated", r"(^|/)(generated|gen|__generated__|vendor|vendored|_vendor|third[_-]?party|dist|build)/"),
        ("generated", r"(_pb2(_grpc)?\.pyi?|\.pb\.go|\.g\.dart|\.min\.(js|css)|\.generated\.\w+|_generated\.\w+)$"),
        (
            "generated",
            r"(^|/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|poetry\.lock|uv\.lock|cargo\.lock|go\.sum)$",
        ),
        ("test", r"(^|/)(tests?|__tests__|spec|specs|testing|testdata|fixtures|e2e)/"),
        ("test", r"(^|/)(test_[^/]*|[^/]*_test|[^/]*[._-](test|spec)|conftest)\.\w+$|Tests?\.(java|cs|kt)$"),
        ("docs", r"(^|/)(docs?|documentation|examples?|samples?)/|\.(md|mdx|rst|txt|adoc)$"),
        ("docs", r"(^|/)(readme|changelog|license|contributing|authors|notice)[^/]*$"),
        ("config", r"\.(toml|ya?ml|ini|cfg|json|jsonc|properties|conf|lock|editorconfig|tf)$|(^|/)\.[^/]+$"),
        ("config", r"(^|/)(makefile|dockerfile[^/]*|docker-compose[^/]*|[^/]*\.config\.\w+|\.github/.*|setup\.py)$"),
    )
)

_LOW = re.compile(
    r"(^|/)(legacy|deprecated|old|archive|vendor|vendored|_vendor|third[_-]?party|examples?|samples?|demos?|bench(marks?)?)/",
    re.IGNORECASE,
)


def language_of(path: str) -> str:
    """The language by the file's name; text when nothing else fits."""
    name = PurePosixPath(path).name.lower()
    if name in NAMES:
        return NAMES[name]
    stem, dot, suffix = name.rpartition(".")
    return LANGUAGES.get(suffix, "text") if dot and stem else "text"


@lru_cache(maxsize=10_000)
def module_of(path: str) -> str:
    """The first folder below a source root, or the first folder of all."""
    folders = path.split("/")[:-1]
    if not folders:
        return NO_MODULE
    root = next((root for root in SOURCE_ROOTS if f"{path}/".startswith(f"{root}/")), None)
    if root is None:
        return folders[0]
    below = folders[root.count("/") + 1 :]
    if root.endswith("java"):
        below = _JAVA_HOME.sub("", "/".join([*below, ""])).strip("/").split("/") if below else below
    elif root == "src" and path.endswith((".py", ".pyi")) and len(below) > 1:
        below = below[1:]  # below src lies the package, and the modules lie in it
    return below[0] if below and below[0] else root.rsplit("/", 1)[-1]


@lru_cache(maxsize=10_000)
def role_of(path: str) -> str:
    """What the file is for: core, test, config, docs or generated."""
    return next((role for role, pattern in ROLES if pattern.search(path)), "core")


def is_aside(path: str) -> bool:
    """Whether the file lies where people look last: examples, vendored, benchmarks, legacy."""
    return _LOW.search(path) is not None
