"""The imports of a file as written, extracted from its syntax tree and cached by the file's content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from tree_sitter import Node, Query, QueryCursor

from shopfloor.errors import ImportParseError
from shopfloor.gateways.tree_sitter import first_error, grammar, parse, text_of


@dataclass(frozen=True, slots=True)
class Import:
    """One import: a module or path as written, and the names taken from it."""

    target: str
    names: tuple[str, ...] = ()
    kind: str = "import"
    line: int = 0


QUERIES = {
    "python": "[(import_statement) (import_from_statement)] @import",
    "typescript": """
        (import_statement source: (string) @source) (export_statement source: (string) @source)
        (import_require_clause source: (string) @source)
        (call_expression function: [(import) (identifier)] @called arguments: (arguments . (string) @argument))
    """,
    "javascript": """
        (import_statement source: (string) @source) (export_statement source: (string) @source)
        (call_expression function: [(import) (identifier)] @called arguments: (arguments . (string) @argument))
    """,
    "go": "(import_spec path: (_) @source)",
    "rust": "[(use_declaration) (mod_item) (extern_crate_declaration)] @import",
    "java": "[(import_declaration) (package_declaration)] @import",
}
QUERIES["tsx"] = QUERIES["typescript"]

_PATH_ATTRIBUTE = re.compile(r'#\[\s*path\s*=\s*"([^"]+)"\s*\]')


def parse_imports(path: str, language: str, source: bytes) -> tuple[Import, ...]:
    """Return the imports of a file in order, none for other languages. Raise ImportParseError on a syntax error."""
    if language not in QUERIES:
        return ()
    imports, broken = _extract_imports(language, hashlib.sha256(source).digest(), _Source(source))
    if broken is not None:
        raise ImportParseError(path=path, details=f"Syntax error at line {broken}")
    return imports


class _Source:
    """The content of a file. Its digest is the key in the cache, so all contents are equal."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Source)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4096)
def _extract_imports(language: str, _: bytes, source: _Source) -> tuple[tuple[Import, ...], int | None]:
    root = parse(language, source.data).root_node
    # The cache keeps this object, which would keep the source in memory.
    source.data = b""
    broken = first_error(root) if root.has_error else None
    if broken is not None:
        return (), broken.start_point.row + 1
    found = dict.fromkeys(_READERS[language](root))
    return tuple(found), None


@cache
def _query(language: str) -> Query:
    return Query(grammar(language), QUERIES[language])


def _capture(language: str, root: Node, name: str) -> list[Node]:
    nodes = QueryCursor(_query(language)).captures(root).get(name, [])
    return sorted(nodes, key=lambda node: node.start_byte)


def _python(root: Node) -> Iterator[Import]:
    for node in _capture("python", root, "import"):
        line = node.start_point.row + 1
        # `import a as b` imports the file of a.
        nodes = node.children_by_field_name("name")
        aliases = [child.child_by_field_name("name") if child.type == "aliased_import" else child for child in nodes]
        names = tuple(map(text_of, aliases))
        if node.type == "import_statement":
            for name in names:
                yield Import(name, line=line)
        else:
            yield Import(text_of(node.child_by_field_name("module_name")), names, "from", line)


def _script(language: str) -> Callable[[Node], Iterator[Import]]:
    def read(root: Node) -> Iterator[Import]:
        sources = _capture(language, root, "source")
        for call in _capture(language, root, "argument"):
            called = call.parent.parent.child_by_field_name("function") if call.parent and call.parent.parent else None
            if text_of(called) in ("import", "require"):
                sources.append(call)
        for node in sorted(sources, key=lambda node: node.start_byte):
            yield Import(text_of(node)[1:-1], line=node.start_point.row + 1)

    return read


def _go(root: Node) -> Iterator[Import]:
    for node in _capture("go", root, "source"):
        yield Import(text_of(node)[1:-1], line=node.start_point.row + 1)


def _rust(root: Node) -> Iterator[Import]:
    for node in _capture("rust", root, "import"):
        line = node.start_point.row + 1
        if node.type == "mod_item":
            if node.child_by_field_name("body") is None:
                placed = _find_path_attribute(node)
                name = text_of(node.child_by_field_name("name"))
                yield Import(placed or name, kind="path" if placed else "mod", line=line)
        elif node.type == "extern_crate_declaration":
            yield Import(text_of(node.child_by_field_name("name")), kind="use", line=line)
        else:
            for path in _use_paths(node.child_by_field_name("argument"), ""):
                yield Import(path, kind="use", line=line)


def _find_path_attribute(node: Node) -> str | None:
    """Return the file that `#[path = "…"]` above a module names."""
    above = node.prev_named_sibling
    while above is not None and above.type in ("attribute_item", "line_comment", "block_comment"):
        if found := _PATH_ATTRIBUTE.fullmatch(text_of(above)):
            return found[1]
        above = above.prev_named_sibling
    return None


def _use_paths(node: Node | None, prefix: str) -> Iterator[str]:
    """Yield each path of a `use`, its braces expanded."""
    if node is None:
        return
    match node.type:
        case "scoped_use_list":
            inner = f"{prefix}{text_of(node.child_by_field_name('path'))}::"
            yield from _use_paths(node.child_by_field_name("list"), inner)
        case "use_list":
            for child in node.named_children:
                yield from _use_paths(child, prefix)
        case "use_as_clause":
            yield prefix + text_of(node.child_by_field_name("path"))
        case "use_wildcard":
            yield prefix + text_of(node).removesuffix("*").removesuffix("::")
        case _:
            yield prefix + text_of(node)


def _java(root: Node) -> Iterator[Import]:
    for node in _capture("java", root, "import"):
        name = next((child for child in node.named_children if "identifier" in child.type), None)
        every = any(child.type == "asterisk" for child in node.children)
        static = any(child.type == "static" for child in node.children)
        kind = "package" if node.type == "package_declaration" else "static" if static else "import"
        yield Import(text_of(name), ("*",) if every else (), kind, node.start_point.row + 1)


_READERS: dict[str, Callable[[Node], Iterator[Import]]] = {
    "python": _python,
    "typescript": _script("typescript"),
    "tsx": _script("tsx"),
    "javascript": _script("javascript"),
    "go": _go,
    "rust": _rust,
    "java": _java,
}
