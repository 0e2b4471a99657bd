"""Imports resolved to files of this project. Whatever is looked at is looked at through the path gate."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from shopfloor.domain.globs import matches
from shopfloor.errors import Refused
from shopfloor.gateways.files import Files
from shopfloor.gateways.imports import Import

MOST = 100
"""Modules and folders of a workspace that are looked at."""

MANY = 10
"""How many files a whole folder stands for at most."""

_SCRIPTS = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json", ".vue", ".svelte")
_COMPILED = {".js": (".ts", ".tsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
_PYTHON_ROOTS = ("", "src", "lib", "app", "python")
_JAVA_ROOTS = ("src/main/java", "src/test/java", "src", "")
_RUST_ROOTS = ("tests", "examples", "benches", "bin")
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_GO_REPLACE = re.compile(r"=>\s+(\.\S*)")
_GO_USE = re.compile(r"^\s*(?:use\s+)?(\.\S*)", re.MULTILINE)
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


class Resolver:
    """Finds the files behind imports."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._by_language: dict[str, Callable[[str, Sequence[Import]], Iterator[str]]] = {
            "python": self._python,
            "typescript": self._scripts,
            "tsx": self._scripts,
            "javascript": self._scripts,
            "go": self._go,
            "rust": self._rust,
            "java": self._java,
        }

    def resolve(self, path: str, language: str, imports: Sequence[Import]) -> list[str]:
        """The files of this project that the file imports, in order, each once, itself left out."""
        reader = self._by_language.get(language)
        if reader is None:
            return []
        return [found for found in dict.fromkeys(reader(path, imports)) if found != path]

    def _python(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        for each in imports:
            dots = len(each.target) - len(each.target.lstrip("."))
            module = each.target[dots:].replace(".", "/")
            roots = [_folder(path, dots)] if dots else [self._package_parent(path), *_PYTHON_ROOTS]
            yield from self._python_module(list(dict.fromkeys(roots)), module, each.names)

    def _python_module(self, roots: list[str], module: str, names: Sequence[str]) -> Iterator[str]:
        for root in roots:
            base = _join(root, module)
            own = self._first(
                [f"{base}.py", f"{base}/__init__.py", f"{base}.pyi"] if module else [f"{base}/__init__.py"]
            )
            parts = [self._first([f"{base}/{name}.py", f"{base}/{name}/__init__.py"]) for name in names if name != "*"]
            found = [part for part in parts if part]
            if len(found) < len(parts) or not parts:
                found = [*([own] if own else []), *found]
            if found:
                yield from found
                return

    def _package_parent(self, path: str) -> str:
        """The folder above the outermost package that the file lies in."""
        folder = _folder(path)
        while folder and self._has(f"{folder}/__init__.py"):
            folder = _folder(folder)
        return folder

    def _scripts(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        config = _TypeScriptConfig(self._files, path)
        for each in imports:
            target = each.target.split("?")[0]
            if target.startswith("."):
                bases = [_join(_folder(path), target)]
            else:
                bases = [*config.candidates(target), *self._workspace_package(target)]
            found = next((file for base in bases if (file := self._script(base))), None)
            if found:
                yield found

    def _script(self, base: str) -> str | None:
        suffix = PurePosixPath(base).suffix
        compiled = [base.removesuffix(suffix) + other for other in _COMPILED.get(suffix, ())]
        return self._first(
            [*compiled, base, *(base + end for end in _SCRIPTS), *(f"{base}/index{end}" for end in _SCRIPTS)]
        )

    def _workspace_package(self, target: str) -> Iterator[str]:
        """Where a package of this repository lies, by its name."""
        manifest = _json(self._files, "package.json")
        workspaces = manifest.get("workspaces", [])
        patterns = workspaces.get("packages", []) if isinstance(workspaces, dict) else workspaces
        for folder in self._members([pattern for pattern in patterns if isinstance(pattern, str)]):
            package = _json(self._files, f"{folder}/package.json")
            name = package.get("name")
            if isinstance(name, str) and (target == name or target.startswith(f"{name}/")):
                rest = target[len(name) + 1 :]
                main = package.get("types") or package.get("module") or package.get("main")
                yield from [_join(folder, rest), _join(folder, f"src/{rest}")] if rest else []
                if not rest:
                    yield from [_join(folder, "src/index"), *([_join(folder, main)] if isinstance(main, str) else [])]
                    yield folder

    def _go(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        modules = self._go_modules(path)
        for each in imports:
            for module, home in modules.items():
                if each.target == module or each.target.startswith(f"{module}/"):
                    folder = _join(home, each.target[len(module) + 1 :])
                    names = [name for name in self._files.names(folder) if name.endswith(".go")]
                    yield from (_join(folder, name) for name in names if not name.endswith("_test.go"))

    def _go_modules(self, path: str) -> dict[str, str]:
        """The modules whose packages a file can import from this project, and where they lie."""
        homes = []
        if (home := self._above(path, "go.mod")) is not None:
            replaced = _GO_REPLACE.findall(self._text(_join(home, "go.mod")))
            homes = [home, *(_join(home, folder) for folder in replaced)]
        if (work := self._above(path, "go.work")) is not None:
            homes += [_join(work, folder) for folder in _GO_USE.findall(self._text(_join(work, "go.work")))]
        named = ((home, _GO_MODULE.search(self._text(_join(home, "go.mod")))) for home in homes[:MOST])
        return {module[1]: home for home, module in named if module}

    def _rust(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        home = self._above(path, "Cargo.toml") or ""
        for each in imports:
            parts = [part for part in each.target.split("::") if part]
            if each.kind == "mod":
                yield from self._rust_module(_rust_children(path), parts)
            elif parts and parts[0] == "crate":
                yield from self._rust_module(_join(home, "src"), parts[1:])
            elif parts and parts[0] in ("self", "super"):
                yield from self._rust_relative(path, parts)
            elif parts:
                yield from self._rust_crate(home, parts)

    def _rust_relative(self, path: str, parts: list[str]) -> Iterator[str]:
        folder = _rust_children(path)
        while parts and parts[0] in ("self", "super"):
            folder = _folder(folder) if parts[0] == "super" else folder
            parts = parts[1:]
        yield from self._rust_module(folder, parts)

    def _rust_module(self, folder: str, parts: list[str]) -> Iterator[str]:
        """The file of the longest beginning of the path; what follows are names inside of it."""
        for length in range(len(parts), 0, -1):
            base = _join(folder, "/".join(parts[:length]))
            if found := self._first([f"{base}.rs", f"{base}/mod.rs"]):
                yield found
                return

    def _rust_crate(self, home: str, parts: list[str]) -> Iterator[str]:
        for folder in self._crates(home):
            manifest = _toml(self._files, _join(folder, "Cargo.toml"))
            name = manifest.get("package", {}).get("name")
            if isinstance(name, str) and name.replace("-", "_") == parts[0]:
                inner = list(self._rust_module(_join(folder, "src"), parts[1:]))
                yield from inner or [file for file in [_join(folder, "src/lib.rs")] if self._has(file)]
                return

    def _crates(self, home: str) -> Iterator[str]:
        dependencies = _toml(self._files, _join(home, "Cargo.toml")).get("dependencies", {})
        for value in dependencies.values():
            if isinstance(value, dict) and isinstance(value.get("path"), str):
                yield _join(home, value["path"])
        members = _toml(self._files, "Cargo.toml").get("workspace", {}).get("members", [])
        yield from self._members([member for member in members if isinstance(member, str)])
        yield home

    def _java(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        package = next((each.target.replace(".", "/") for each in imports if each.kind == "package"), "")
        folder = _folder(path)
        own = folder.removesuffix(package).rstrip("/") if package and folder.endswith(package) else folder
        roots = list(dict.fromkeys([own, *self._java_modules(own), *_JAVA_ROOTS]))
        for each in (each for each in imports if each.kind != "package"):
            name = each.target.replace(".", "/")
            if each.kind == "static" and not each.names:
                name = _folder(name)
            yield from self._java_type(roots, name, every="*" in each.names and each.kind != "static")

    def _java_modules(self, own: str) -> Iterator[str]:
        """The source roots of the same module, and of those beside it."""
        home = own.removesuffix("src/main/java").removesuffix("src/test/java").rstrip("/")
        if not home or home == own:
            return
        around = _folder(home)
        for module in [home, *(_join(around, name) for name in self._files.names(around, folders=True)[:MOST])]:
            yield _join(module, "src/main/java")

    def _java_type(self, roots: list[str], name: str, *, every: bool) -> Iterator[str]:
        for root in roots:
            base = _join(root, name)
            files = [_join(base, file) for file in self._files.names(base) if file.endswith(".java")] if every else []
            found = self._first([f"{base}.java", f"{_folder(base)}.java"]) if not files else None
            if files or found:
                yield from files[:MANY] or [found or ""]
                return

    def _members(self, patterns: Sequence[str]) -> Iterator[str]:
        """The folders that the patterns of a workspace stand for."""
        for pattern in patterns[:MOST]:
            base, star, _ = pattern.strip("./").partition("*")
            folder = base.rstrip("/")
            if not star:
                yield folder
                continue
            for name in self._files.names(folder, folders=True):
                if matches(pattern.strip("./").replace("**", "*"), _join(folder, name)):
                    yield _join(folder, name)

    def _above(self, path: str, name: str) -> str | None:
        """The nearest folder above that holds a file of that name."""
        folder = _folder(path)
        while True:
            if self._has(_join(folder, name)):
                return folder
            if not folder:
                return None
            folder = _folder(folder)

    def _first(self, paths: Sequence[str]) -> str | None:
        return next((path for path in paths if self._has(path)), None)

    def _has(self, path: str) -> bool:
        return self._files.has(path)

    def _text(self, path: str) -> str:
        return _text(self._files, path)


class _TypeScriptConfig:
    """`paths` and `baseUrl` of the nearest tsconfig.json or jsconfig.json, with what it extends."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._base: str | None = None
        self._paths: dict[str, list[str]] = {}
        self._paths_base = ""
        folder = _folder(path)
        while True:
            name = next((n for n in ("tsconfig.json", "jsconfig.json") if files.has(_join(folder, n))), None)
            if name is not None:
                self._read(_join(folder, name), 8)
                return
            if not folder:
                return
            folder = _folder(folder)

    def candidates(self, target: str) -> Iterator[str]:
        """Where the target may lie, without its suffix."""
        for pattern, places in self._paths.items():
            head, star, tail = pattern.partition("*")
            if target == pattern or (star and target.startswith(head) and target.endswith(tail)):
                middle = target[len(head) : len(target) - len(tail)] if star else ""
                for place in places:
                    yield _join(self._paths_base, place.replace("*", middle))
        if self._base is not None:
            yield _join(self._base, target)

    def _read(self, path: str, depth: int) -> None:
        config = _json(self._files, path)
        extended = config.get("extends")
        for each in extended if isinstance(extended, list) else [extended]:
            if depth and isinstance(each, str) and each.startswith("."):
                base = _join(_folder(path), each)
                self._read(base if base.endswith(".json") else f"{base}.json", depth - 1)
        options = config.get("compilerOptions")
        options = options if isinstance(options, dict) else {}
        if isinstance(options.get("baseUrl"), str):
            self._base = self._paths_base = _join(_folder(path), options["baseUrl"])
        if isinstance(options.get("paths"), dict):
            self._paths = {key: [p for p in places if isinstance(p, str)] for key, places in options["paths"].items()}
            self._paths_base = _folder(path) if self._base is None else self._base


def _rust_children(path: str) -> str:
    """The folder in which the modules of a file lie."""
    pure = PurePosixPath(path)
    beside = pure.name in ("main.rs", "lib.rs", "mod.rs") or pure.parent.name in _RUST_ROOTS
    return _folder(path) if beside else _join(_folder(path), pure.stem)


def _folder(path: str, levels: int = 1) -> str:
    for _ in range(levels):
        path = path.rpartition("/")[0]
    return path


def _join(folder: str, path: str) -> str:
    """The path as seen from the folder, `.` and `..` taken out; one that leaves the root names nothing."""
    parts: list[str] = []
    for part in f"{folder}/{path}".split("/"):
        if part == "..":
            if not parts:
                return "\0"
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path).data.decode(errors="replace")
    except Refused:
        return ""


def _json(files: Files, path: str) -> dict[str, Any]:
    """A JSON file with comments and commas too many; nothing when it is none."""
    text = _COMMENT.sub(lambda match: match[1] or "", _text(files, path))
    try:
        value = json.loads(_TRAILING_COMMA.sub(r"\1", text))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _toml(files: Files, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(files, path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
