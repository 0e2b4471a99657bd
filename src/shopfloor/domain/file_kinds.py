"""The language, module and role of a file, from its path alone. Tables are read from the top."""

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
    "pm": "perl", "t": "perl", "zig": "zig", "zon": "zig", "kts": "kotlin", "sc": "scala", "m": "objc", "mm": "objc",
    "groovy": "groovy", "gradle": "groovy", "ml": "ocaml", "mli": "ocaml", "fs": "fsharp", "nix": "nix", "vim": "vim",
    "cmake": "cmake", "bats": "shell", "ksh": "shell", "ps1": "powershell", "psm1": "powershell", "nim": "nim",
}  # fmt: skip

NAMES = {
    "makefile": "makefile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "cmakelists.txt": "cmake",
}

# Folders whose subfolders are modules; the longest match wins.
SOURCE_ROOTS = (
    "src/main/java", "src/test/java", "src/main/kotlin", "src/main", "src/test", "src/server", "src/client", "src/lib",
    "src/app", "src", "source", "lib", "app", "server", "client", "pkg", "internal", "cmd", "packages", "apps", "crates",
    "tests", "test", "spec", "examples",
)  # fmt: skip

# The module of files at the project root.
NO_MODULE = "root"

_JAVA_HOME = re.compile(r"(?:com|org|net|io|dev|edu|gov)/[^/]+/(?=[^/]+/)")

ROLES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern))
    for role, pattern in (
        # Case-sensitive: Zig's standard library has its build system in `Build`.
        ("generated", r"(^|/)(generated|gen|__generated__|vendor|vendored|_vendor|third[_-]?party|dist|build)/"),
        (
            "generated",
            r"(?i)(_pb2(_grpc)?\.pyi?|\.pb\.go|\.g\.dart|\.min\.(js|css)|[._]generated\.\w+|\.designer\.(cs|vb))$",
        ),
        (
            "generated",
            r"(?i)(^|/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|poetry\.lock|uv\.lock|cargo\.lock|go\.sum)$",
        ),
        # Scripts that autotools puts into a package.
        (
            "generated",
            r"(^|/)(configure|config\.(guess|sub)|ylwrap|depcomp|install-sh|ltmain\.sh|aclocal\.m4|missing)$",
        ),
        (
            "test",
            r"(?i)(^|/)(tests?|__tests__|specs?|testdata|test[_-]?suite|fixtures|e2e|__mocks__|compile_fail)/",
        ),
        (
            "test",
            r"(?i)(^|/)(test[_-][^/]*|[^/]*_(?:unit|perf)?test|[^/]*[._-](test|spec)|conftest)\.(?!ex$)\w+$|Tests?\.(java|cs|kt|swift|scala|php)$",
        ),
        ("test", r"(?i)(^|/)tests?\.(rs|zig|py|exs?)$|\.(t|bats)$"),
        ("test", r"(Spec|Suite|TestCase)\.(scala|hs|kt|groovy|php|java)$"),
        ("docs", r"(?i)(^|/)(docs?|documentation|examples?|samples?)/|\.(md|mdx|rst|txt|adoc|pod|texi|tex|[1-9])$"),
        (
            "docs",
            r"(?i)(^|/)(readme|changelog|changes|news|history|todo|licen[sc]e|copying|contributing|authors|thanks|notice)[^/.]*$",
        ),
        ("docs", r"(?i)(^|/)(readme|changelog|license|contributing|authors|notice|release-notes)\.[^/]*$"),
        ("config", r"(?i)\.(toml|ya?ml|ini|cfg|json|jsonc|properties|conf|lock|editorconfig|tf)$|(^|/)\.[^/]+$"),
        ("config", r"(?i)(^|/)(makefile|dockerfile[^/]*|docker-compose[^/]*|[^/]*\.config\.\w+|setup\.py)$"),
        # Files for tools and translators, not code in the usual sense.
        (
            "config",
            r"(?i)(^|/)(\.github|debian)/|\.(xml|resx|po|pot|xlf|csv|tsv|svg|patch|diff|plist|tmpl|in|am|m4|ac)$",
        ),
    )
)

_LOW_PRIORITY = re.compile(
    r"(^|/)(legacy|deprecated|old|archive|compat|contrib|vendor|vendored|_vendor|third[_-]?party|examples?|samples?|demos?|bench(marks?)?)/",
    re.IGNORECASE,
)


_REEXPORT = re.compile(r"(^|/)(__init__\.py|index\.[cm]?[jt]sx?|mod\.rs|lib\.rs|package-info\.java|module-info\.java)$")
_DECLARATIONS = re.compile(r"\.d\.[cm]?ts$|\.pyi$|\.(h|hh|hpp|hxx)$|\.mli$")


def detect_language(path: str) -> str:
    """Return the language for the file's name, or text if none matches."""
    name = PurePosixPath(path).name.lower()
    if name in NAMES:
        return NAMES[name]
    stem, dot, suffix = name.rpartition(".")
    return LANGUAGES.get(suffix, "text") if dot and stem else "text"


@lru_cache(maxsize=10_000)
def detect_module(path: str) -> str:
    """Return the first folder below a source root, or else the first folder of the path."""
    folders = path.split("/")[:-1]
    if not folders:
        return NO_MODULE
    root = next((root for root in SOURCE_ROOTS if f"{path}/".startswith(f"{root}/")), None)
    # A part of a monorepo has its own source folder: treat py/src/shop/cart/x.py like src/shop/cart/x.py.
    if root is None and "src" in folders[1:]:
        return detect_module("/".join(path.split("/")[folders.index("src", 1) :]))
    if root is None:
        return folders[0]
    below = folders[root.count("/") + 1 :]
    if root.endswith("java"):
        below = _JAVA_HOME.sub("", "/".join([*below, ""])).strip("/").split("/") if below else below
    elif root == "src" and path.endswith((".py", ".pyi")) and len(below) > 1:
        # src/package/module: the package is below src.
        below = below[1:]
    return below[0] if below and below[0] else root.rsplit("/", 1)[-1]


def _skip_packages(path: str) -> str:
    """Return only the name of a file below `src/main`, where folders such as `examples` are packages of the product."""
    return path.rpartition("/")[2] if "src/main/" in path else path


@lru_cache(maxsize=10_000)
def detect_role(path: str) -> str:
    """Return what the file is for: core, test, config, docs or generated."""
    path = _skip_packages(path)
    return next((role for role, pattern in ROLES if pattern.search(path)), "core")


@lru_cache(maxsize=10_000)
def is_low_priority(path: str) -> bool:
    """Return whether the file is an example, vendored, a benchmark or legacy code."""
    return _LOW_PRIORITY.search(_skip_packages(path)) is not None


@lru_cache(maxsize=10_000)
def is_reexport(path: str) -> bool:
    """Return whether the file mostly re-exports names of others, like __init__.py and index.ts."""
    return _REEXPORT.search(path) is not None


@lru_cache(maxsize=10_000)
def is_declaration_file(path: str) -> bool:
    """Return whether the file only declares types for code elsewhere."""
    return _DECLARATIONS.search(path) is not None
