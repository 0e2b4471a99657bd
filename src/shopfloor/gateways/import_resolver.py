"""Resolves imports to files of the project. Every file is opened through the path gate."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from shopfloor.domain.globs import matches
from shopfloor.errors import ClientError
from shopfloor.gateways.files import Files
from shopfloor.gateways.import_parser import Import

MAX_WORKSPACE_MEMBERS = 100
"""Maximum number of modules and folders of a workspace to examine."""

MAX_FILES_PER_FOLDER = 10
"""Maximum number of files that importing a whole folder returns."""

MAX_LOOKUPS = 20_000
"""Files and folders that one call may look up: about 0.4 s of CPU. 70,000 imports of absent modules took 47 s."""

MAX_STEPS = 100_000
"""Folders, members of workspaces and aliases that one call may compare, also if they were read before: 20 lines of a
tsconfig.json that extends itself, or a workspace of 100 patterns, took hours."""

MAX_IMPORTS = 2_000
MAX_TARGET_CHARS = 1_000
"""Maximum length of an import: a longer one names no file."""

MAX_READ_BYTES = 8_000_000
"""Maximum size of the manifests and configuration files that one call reads."""

_SCRIPTS = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json", ".vue", ".svelte")
_COMPILED = {".js": (".ts", ".tsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
_PYTHON_ROOTS = ("", "src", "lib", "app", "python")
_JAVA_ROOTS = ("src/main/java", "src/test/java", "src", "")
_RUST_ROOTS = ("tests", "examples", "benches", "bin")
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_GO_REPLACE = re.compile(r"=>\s+(\.\S*)")
_GO_USE = re.compile(r"^[ \t]*(?:use[ \t]+)?(\.\S*)", re.MULTILINE)
# Also matches unterminated strings and comments: otherwise each of their characters would be tried as a new start.
_COMMENT = re.compile(r'("[^"\\]*(?:\\.?[^"\\]*)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


class ImportResolver:
    """Finds the files behind imports."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def resolve(self, path: str, language: str, imports: Sequence[Import]) -> list[str]:
        """Return the files of the project that a file imports, in order, each once, without itself.

        The work is limited: if there are too many imports, only the first are resolved.
        """
        return _Resolution(self._files).resolve(path, language, imports)


class _TooMuchWorkError(Exception):
    """The limit of one call is reached."""


class _Lookups:
    """Cache of one call's lookups, so that nothing is read twice: imports of one file share folders and manifests."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._count = 0
        self._steps = 0
        self._bytes = 0
        self._has: dict[str, bool] = {}
        self._texts: dict[str, str] = {}
        self._names: dict[tuple[str, bool], list[str]] = {}
        self._json: dict[str, dict[str, Any]] = {}
        self._toml: dict[str, dict[str, Any]] = {}

    def add_step(self) -> None:
        """Count a comparison, or raise if there were too many."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TooMuchWorkError

    def has_file(self, path: str) -> bool:
        self.add_step()
        if path not in self._has:
            self._add()
            self._has[path] = self._files.has_file(path)
        return self._has[path]

    def list_names(self, folder: str, *, folders: bool = False) -> list[str]:
        self.add_step()
        if (folder, folders) not in self._names:
            self._add()
            names = self._files.list_names(folder, folders=folders)
            # A folder costs as many lookups as it has names.
            self._add(len(names))
            self._names[folder, folders] = names
        return self._names[folder, folders]

    def read_text(self, path: str) -> str:
        """Return the text of a file, or an empty string if it cannot be read."""
        if path not in self._texts:
            self._add()
            try:
                data = self._files.read(path).data
            except ClientError:
                data = b""
            self._bytes += len(data)
            if self._bytes > MAX_READ_BYTES:
                raise _TooMuchWorkError
            self._texts[path] = data.decode(errors="replace")
        return self._texts[path]

    def read_json(self, path: str) -> dict[str, Any]:
        """Read a JSON file with comments and trailing commas; return an empty object if it is not one."""
        self.add_step()
        if path not in self._json:
            text = _COMMENT.sub(lambda match: match[1] or "", self.read_text(path))
            try:
                value = json.loads(_TRAILING_COMMA.sub(r"\1", text))
            except (ValueError, RecursionError):
                value = {}
            self._json[path] = value if isinstance(value, dict) else {}
        return self._json[path]

    def read_toml(self, path: str) -> dict[str, Any]:
        """Read a TOML file; return an empty table if it is not one."""
        self.add_step()
        if path not in self._toml:
            try:
                self._toml[path] = tomllib.loads(self.read_text(path))
            except (tomllib.TOMLDecodeError, RecursionError):
                self._toml[path] = {}
        return self._toml[path]

    def _add(self, lookups: int = 1) -> None:
        self._count += lookups
        if self._count > MAX_LOOKUPS:
            raise _TooMuchWorkError


class _Resolution:
    """One call: the imports of one file."""

    def __init__(self, files: Files) -> None:
        self._files = _Lookups(files)
        self._workspaces: dict[str, list[str]] = {}
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
        """Return the files in order, each once, without the importing file."""
        reader = self._by_language.get(language)
        found: dict[str, None] = {}
        if reader is not None:
            usable = [each for each in imports[:MAX_IMPORTS] if len(each.target) <= MAX_TARGET_CHARS]
            with suppress(_TooMuchWorkError):
                for each in reader(path, usable):
                    found[each] = None
        return [each for each in found if each != path]

    def _python(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        # An absolute import starts from the folder above the outermost package of the file.
        parent = _folder(path)
        while parent and self._has(f"{parent}/__init__.py"):
            parent = _folder(parent)
        # Source folders of this package and of the enclosing ones: in a monorepo, each has its own.
        around = [_join(above, root) for above in _list_folders(path) for root in _PYTHON_ROOTS]
        for each in imports:
            dots = len(each.target) - len(each.target.lstrip("."))
            module = each.target[dots:].replace(".", "/")
            roots = [_folder(path, dots)] if dots else [parent, *around]
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

    def _scripts(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        config = _TypeScriptConfig(self._files, path)
        for each in imports:
            target = each.target.split("?")[0]
            if target.startswith("."):
                bases = [_join(_folder(path), target)]
            else:
                bases = [*config.candidates(target), *self._workspace_package(path, target)]
            for base in bases:
                # TypeScript is imported by the name of its output: './a.js' is a.ts.
                suffix = PurePosixPath(base).suffix
                compiled = [base.removesuffix(suffix) + other for other in _COMPILED.get(suffix, ())]
                named = [base + end for end in _SCRIPTS] + [f"{base}/index{end}" for end in _SCRIPTS]
                if found := self._first([*compiled, base, *named]):
                    yield found
                    break

    def _script_members(self, folder: str) -> list[str]:
        """Return the packages of the npm, Yarn or pnpm workspace in a folder."""
        if folder not in self._workspaces:
            workspaces = self._files.read_json(_join(folder, "package.json")).get("workspaces")
            named = _list_texts(workspaces.get("packages") if isinstance(workspaces, dict) else workspaces)
            named += _list_pnpm_packages(self._files.read_text(_join(folder, "pnpm-workspace.yaml")))
            self._workspaces[folder] = list(self._members(named, folder))
        return self._workspaces[folder]

    def _crate_members(self, folder: str) -> list[str]:
        """Return the crates of the Cargo workspace in a folder."""
        if folder not in self._workspaces:
            workspace = _as_table(self._files.read_toml(_join(folder, "Cargo.toml")).get("workspace"))
            self._workspaces[folder] = list(self._members(_list_texts(workspace.get("members")), folder))
        return self._workspaces[folder]

    def _workspace_package(self, path: str, target: str) -> Iterator[str]:
        """Yield the paths that a package of this repository may have, by its name."""
        for folder in (member for above in _list_folders(path) for member in self._script_members(above)):
            package = self._files.read_json(f"{folder}/package.json")
            name = package.get("name")
            if isinstance(name, str) and (target == name or target.startswith(f"{name}/")):
                rest = target[len(name) + 1 :]
                main = package.get("types") or package.get("module") or package.get("main")
                yield from [_join(folder, rest), _join(folder, f"src/{rest}")] if rest else []
                if not rest:
                    yield from [_join(folder, "src/index"), *([_join(folder, main)] if isinstance(main, str) else [])]
                    yield folder

    def _go(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        # The modules of this project that the file can import: its own, those that go.mod replaces with a folder, and
        # its neighbours in a workspace.
        homes = []
        if (home := self._above(path, "go.mod")) is not None:
            replaced = _GO_REPLACE.findall(self._files.read_text(_join(home, "go.mod")))
            homes = [home, *(_join(home, folder) for folder in replaced)]
        if (work := self._above(path, "go.work")) is not None:
            homes += [_join(work, folder) for folder in _GO_USE.findall(self._files.read_text(_join(work, "go.work")))]
        named = (
            (home, _GO_MODULE.search(self._files.read_text(_join(home, "go.mod"))))
            for home in homes[:MAX_WORKSPACE_MEMBERS]
        )
        modules = {module[1]: home for home, module in named if module}
        for each in imports:
            for module, home in modules.items():
                if each.target == module or each.target.startswith(f"{module}/"):
                    folder = _join(home, each.target[len(module) + 1 :])
                    names = [name for name in self._files.list_names(folder) if name.endswith(".go")]
                    yield from (_join(folder, name) for name in names if not name.endswith("_test.go"))

    def _rust(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        home = self._above(path, "Cargo.toml") or ""
        for each in imports:
            parts = [part for part in each.target.split("::") if part]
            if each.kind == "path":
                # `#[path = "…"] mod name;`, relative to the folder of the file.
                yield from filter(self._has, [_join(_folder(path), each.target)])
            elif each.kind == "mod":
                yield from self._rust_module(_rust_children(path), parts)
            elif parts and parts[0] == "crate":
                yield from self._rust_module(_join(home, "src"), parts[1:])
            elif parts and parts[0] in ("self", "super"):
                folder = _rust_children(path)
                while parts and parts[0] in ("self", "super"):
                    folder = _folder(folder) if parts[0] == "super" else folder
                    parts = parts[1:]
                yield from self._rust_module(folder, parts)
            elif parts:
                yield from self._rust_crate(home, parts)

    def _rust_module(self, folder: str, parts: list[str]) -> Iterator[str]:
        """Yield the file of the longest prefix of the path; the rest are names inside it."""
        for length in range(len(parts), 0, -1):
            base = _join(folder, "/".join(parts[:length]))
            if found := self._first([f"{base}.rs", f"{base}/mod.rs"]):
                yield found
                return

    def _rust_crate(self, home: str, parts: list[str]) -> Iterator[str]:
        dependencies = _as_table(self._files.read_toml(_join(home, "Cargo.toml")).get("dependencies"))
        local = [_as_table(each).get("path") for each in dependencies.values()]
        crates = [_join(home, path) for path in local if isinstance(path, str)]
        crates += [each for above in _list_folders(_join(home, "Cargo.toml")) for each in self._crate_members(above)]
        for folder in [*crates, home]:
            manifest = self._files.read_toml(_join(folder, "Cargo.toml"))
            name = _as_table(manifest.get("package")).get("name")
            if isinstance(name, str) and name.replace("-", "_") == parts[0]:
                inner = list(self._rust_module(_join(folder, "src"), parts[1:]))
                yield from inner or [file for file in [_join(folder, "src/lib.rs")] if self._has(file)]
                return

    def _java(self, path: str, imports: Sequence[Import]) -> Iterator[str]:
        package = next((each.target.replace(".", "/") for each in imports if each.kind == "package"), "")
        folder = _folder(path)
        own = folder.removesuffix(package).rstrip("/") if package and folder.endswith(package) else folder
        # In a build with several modules, imports refer to the same module and to its siblings.
        modules: list[str] = []
        home = own.removesuffix("src/main/java").removesuffix("src/test/java").rstrip("/")
        if home and home != own:
            around = _folder(home)
            siblings = self._files.list_names(around, folders=True)[:MAX_WORKSPACE_MEMBERS]
            modules = [_join(each, "src/main/java") for each in [home, *(_join(around, name) for name in siblings)]]
        roots = list(dict.fromkeys([own, *modules, *_JAVA_ROOTS]))
        for each in (each for each in imports if each.kind != "package"):
            name = each.target.replace(".", "/")
            if each.kind == "static" and not each.names:
                name = _folder(name)
            yield from self._java_type(roots, name, every="*" in each.names and each.kind != "static")

    def _java_type(self, roots: list[str], name: str, *, every: bool) -> Iterator[str]:
        for root in roots:
            base = _join(root, name)
            files = (
                [_join(base, file) for file in self._files.list_names(base) if file.endswith(".java")] if every else []
            )
            found = self._first([f"{base}.java", f"{_folder(base)}.java"]) if not files else None
            if files or found:
                yield from files[:MAX_FILES_PER_FOLDER] or [found or ""]
                return

    def _members(self, patterns: Sequence[str], around: str) -> Iterator[str]:
        """Yield the folders that match the patterns of a workspace in the folder `around`."""
        excluded = [f"/{_join(around, each[1:])}" for each in patterns if each.startswith("!")][:MAX_WORKSPACE_MEMBERS]
        for pattern in [each for each in patterns if not each.startswith("!")][:MAX_WORKSPACE_MEMBERS]:
            whole = _join(around, pattern.strip("./"))
            base, star, _ = whole.partition("*")
            if not star:
                yield whole
                continue
            folder = _folder(base)
            for name in self._files.list_names(folder, folders=True)[:MAX_WORKSPACE_MEMBERS]:
                self._files.add_step()
                member = _join(folder, name)
                is_excluded = any(matches(each, member) for each in excluded)
                if matches(f"/{whole.replace('**', '*')}", member) and not is_excluded:
                    yield member

    def _above(self, path: str, name: str) -> str | None:
        """Return the nearest folder above a path that has a file of that name."""
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
        return self._files.has_file(path)


class _TypeScriptConfig:
    """`paths` and `baseUrl` of the nearest tsconfig.json or jsconfig.json, with what it extends."""

    def __init__(self, files: _Lookups, path: str) -> None:
        self._files = files
        self._base: str | None = None
        self._paths: dict[str, list[str]] = {}
        self._paths_base = ""
        folder = _folder(path)
        while True:
            name = next((n for n in ("tsconfig.json", "jsconfig.json") if files.has_file(_join(folder, n))), None)
            if name is not None:
                self._read(_join(folder, name), 8)
                return
            if not folder:
                return
            folder = _folder(folder)

    def candidates(self, target: str) -> Iterator[str]:
        """Yield the paths that the target may have, without a suffix."""
        for pattern, places in self._paths.items():
            self._files.add_step()
            head, star, tail = pattern.partition("*")
            if target == pattern or (star and target.startswith(head) and target.endswith(tail)):
                middle = target[len(head) : len(target) - len(tail)] if star else ""
                for place in places:
                    self._files.add_step()
                    yield _join(self._paths_base, place.replace("*", middle))
        if self._base is not None:
            yield _join(self._base, target)

    def _read(self, path: str, depth: int) -> None:
        config = self._files.read_json(path)
        extended = config.get("extends")
        for each in extended if isinstance(extended, list) else [extended]:
            if depth and isinstance(each, str) and each.startswith("."):
                base = _join(_folder(path), each)
                self._read(base if base.endswith(".json") else f"{base}.json", depth - 1)
        options = _as_table(config.get("compilerOptions"))
        if isinstance(options.get("baseUrl"), str):
            self._base = self._paths_base = _join(_folder(path), options["baseUrl"])
        if isinstance(options.get("paths"), dict):
            self._paths = {key: _list_texts(places) for key, places in options["paths"].items()}
            self._paths_base = _folder(path) if self._base is None else self._base


def _as_table(value: Any) -> dict[str, Any]:
    """Return a table of a manifest; anything else counts as an empty one."""
    return value if isinstance(value, dict) else {}


def _list_texts(value: Any) -> list[str]:
    """Return the texts of a list of a manifest; anything else counts as absent."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _list_folders(path: str) -> list[str]:
    """Return the folders around a path, the nearest first, with the root at the end."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:length]) for length in range(len(parts), -1, -1)]


def _list_pnpm_packages(text: str) -> list[str]:
    """Return the patterns under `packages:` of a pnpm-workspace.yaml, which is a list of strings."""
    # Line by line: a pattern for all of them took minutes for five kilobytes of spaces, and blocked the whole process.
    found: list[str] = []
    is_inside = False
    for line in text.splitlines():
        item = line.strip()
        if not is_inside:
            is_inside = line.startswith("packages:")
        elif item.startswith("-"):
            found.append(item[1:].partition("#")[0].strip().strip("'\""))
        elif item and not item.startswith("#"):
            break
    return [pattern for pattern in found if pattern]


def _rust_children(path: str) -> str:
    """Return the folder of the modules of a file."""
    pure = PurePosixPath(path)
    beside = pure.name in ("main.rs", "lib.rs", "mod.rs") or pure.parent.name in _RUST_ROOTS
    return _folder(path) if beside else _join(_folder(path), pure.stem)


def _folder(path: str, levels: int = 1) -> str:
    for _ in range(levels):
        path = path.rpartition("/")[0]
    return path


def _join(folder: str, path: str) -> str:
    """Join and normalize a path. A path outside the root becomes a name that no file has."""
    parts: list[str] = []
    for part in f"{folder}/{path}".split("/"):
        if part == "..":
            if not parts:
                return "\0"
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
