"""Syntax trees from tree-sitter. A grammar is loaded with the first file of its language."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import local

from tree_sitter import Language, Node, Parser, Tree

GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "javascript": ("tree_sitter_javascript", "language"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "kotlin": ("tree_sitter_kotlin", "language"),
    "scala": ("tree_sitter_scala", "language"),
    "swift": ("tree_sitter_swift", "language"),
    "elixir": ("tree_sitter_elixir", "language"),
    "haskell": ("tree_sitter_haskell", "language"),
    "lua": ("tree_sitter_lua", "language"),
    "shell": ("tree_sitter_bash", "language"),
    "zig": ("tree_sitter_zig", "language"),
}

# A parser keeps state while it parses, so each thread has its own. tree-sitter stays below 0.26, which reads freed
# memory (tree-sitter/py-tree-sitter#472).
_parsers = local()


@cache
def grammar(language: str) -> Language:
    """Return the grammar of a language."""
    module, name = GRAMMARS[language]
    return Language(getattr(import_module(module), name)())


def parse(language: str, source: bytes) -> Tree:
    """Parse a file. Text that cannot be parsed becomes an error node."""
    known: dict[str, Parser] = _parsers.__dict__.setdefault("known", {})
    if language not in known:
        known[language] = Parser(grammar(language))
    return known[language].parse(source)


def first_error(node: Node) -> Node | None:
    """Return the first node that could not be parsed."""
    while node.has_error and not (node.is_error or node.is_missing):
        broken = next((child for child in node.children if child.has_error or child.is_missing), None)
        if broken is None:
            return node
        node = broken
    return node if node.has_error or node.is_missing else None


def text_of(node: Node | None) -> str:
    """Return the source of a node."""
    return "" if node is None or node.text is None else node.text.decode(errors="replace")
