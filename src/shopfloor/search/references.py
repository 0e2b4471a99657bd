"""References: where an identifier is used, from syntax trees, and by whole words in languages without a grammar.

They are found by name. Functions of one name are not distinguished, so the places of all definitions are returned too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from shopfloor.domain import globs
from shopfloor.domain.file_kinds import detect_language, detect_module, detect_role
from shopfloor.domain.index import Scope
from shopfloor.domain.tokenizer import find_symbol
from shopfloor.errors import ClientError
from shopfloor.gateways.files import Files
from shopfloor.gateways.tree_sitter import GRAMMARS, parse
from shopfloor.search.chunker import Definition, detect_script, list_definitions

MAX_SECONDS = 2.0
"""Time for reading and parsing files; a search may take 5 s in all."""

MAX_LINES_PER_USE = 5
MAX_LINE_CHARS = 200

CALL, IMPORT, REFERENCE, ASSIGNMENT, DEFINITION = "call", "import", "reference", "assignment", "definition"
_PRECEDENCE = (DEFINITION, CALL, ASSIGNMENT, IMPORT, REFERENCE)
"""What a line counts as that has a name several times."""

_CALLS = frozenset(
    {
        "call", "call_expression", "method_invocation", "invocation_expression", "new_expression", "command",
        "object_creation_expression", "function_call", "function_call_expression", "member_call_expression",
        "nullsafe_member_call_expression", "scoped_call_expression", "macro_invocation", "explicit_constructor_invocation",
        "instance_expression", "apply", "constructor_invocation", "decorator", "annotation", "marker_annotation",
        "attribute_item", "jsx_self_closing_element", "jsx_opening_element",
    }
)  # fmt: skip
_QUALIFIED = frozenset(
    {
        "attribute", "member_expression", "selector_expression", "field_expression", "scoped_identifier", "generic_type",
        "generic_function", "member_access_expression", "navigation_expression", "navigation_suffix", "dot_index_expression",
        "method_index_expression", "qualified_identifier", "qualified_name", "scope_resolution", "dot", "command_name",
        "generic_name", "scoped_type_identifier", "simple_identifier", "template_function", "variable", "user_type",
        "type_identifier", "exp", "name",
    }
)  # fmt: skip
_CALLED_FIELDS = ("function", "name", "method", "target", "constructor", "type", "macro")
_TEXTS = ("comment", "string", "heredoc", "char_literal", "character", "regex", "quoted_content", "template_string")
_IMPORTS = ("import", "use_declaration", "using_directive", "preproc_include", "namespace_use", "extern_crate")
_NAME_FIELDS = ("name", "declarator", "left", "pattern")
_DEFINING = (
    "definition", "declaration", "_item", "declarator", "_spec", "specifier", "method", "function", "class", "module",
    "preproc_def", "preproc_function_def", "enumerator", "enum_constant",
)  # fmt: skip
_ASSIGNMENTS = frozenset({"assignment", "assignment_expression", "assignment_statement", "variable_assignment"})
_QUESTIONS = (
    (REFERENCE, re.compile(r"where\s+(?:is|are)\s+(\S+)\s+(?:used|referenced|imported)\s*\??", re.IGNORECASE)),
    (REFERENCE, re.compile(r"(?:who|what)\s+(?:uses|imports|references)\s+(\S+?)\s*\??", re.IGNORECASE)),
    (REFERENCE, re.compile(r"(?:references|usages|uses)\s+(?:of|to)\s+(\S+?)\s*\??", re.IGNORECASE)),
    (CALL, re.compile(r"(?:who|what)\s+calls\s+(\S+?)\s*\??", re.IGNORECASE)),
    (CALL, re.compile(r"where\s+(?:is|are)\s+(\S+)\s+called\s*\??", re.IGNORECASE)),
    (CALL, re.compile(r"(?:callers|calls)\s+(?:of|to)\s+(\S+?)\s*\??", re.IGNORECASE)),
)
_CODE_SHAPE = re.compile(r"`.+`|.+\(\)|\w+(?:\.|::|#|->)\w.*|\w*[a-z0-9][A-Z]\w*|\w*[A-Za-z0-9]_\w+|_\w+")
_LAST_NAME = re.compile(r"[A-Za-z_$][\w$]*$")


@dataclass(frozen=True, slots=True)
class Use:
    """The uses of a name in one function, class or section, or elsewhere in one file."""

    path: str
    symbol: str | None
    """The innermost definition around it."""
    kinds: tuple[str, ...]
    lines: tuple[int, ...]
    """The first ones."""
    count: int
    content: str
    module: str
    role: str
    modified: int


@dataclass(frozen=True, slots=True)
class References:
    """The uses of a name in the order of importance, and where it is defined."""

    uses: list[Use]
    definitions: list[str]
    is_complete: bool


def find_question(query: str) -> tuple[str, str] | None:
    """Return the kind and the identifier of a question such as "what calls load_users", or None if it is another one."""
    for kind, pattern in _QUESTIONS:
        found = pattern.fullmatch(query.strip())
        if found is not None and _CODE_SHAPE.fullmatch(found[1].strip("'\"")):
            name = find_name(found[1])
            return None if name is None else (kind, name)
    return None


def find_name(query: str) -> str | None:
    """Return the identifier that a query consists of, without what qualifies it, or None."""
    symbol = find_symbol(query.strip().removesuffix("?"))
    found = None if symbol is None else _LAST_NAME.search(symbol)
    return None if found is None else found[0]


def find_references(
    files: Files, paths: Iterable[str], name: str, kind: str, scope: Scope, is_abandoned: Callable[[], bool] = bool
) -> References:
    """Find the uses of a name in these files: all of them, or calls only. Tests come last."""
    deadline = time.monotonic() + MAX_SECONDS
    chosen = sorted((path for path in paths if _is_within(path, scope)), key=lambda path: (_order(path), path))
    uses: list[Use] = []
    definitions: list[str] = []
    for path in chosen:
        if time.monotonic() > deadline or is_abandoned():
            return References(uses, definitions, is_complete=False)
        try:
            file = files.read(path)
        except ClientError:
            continue
        own, defined = _read_uses(path, file.data, file.modified, name, kind)
        uses += own
        definitions += defined
    return References(uses, definitions, is_complete=True)


def _is_within(path: str, scope: Scope) -> bool:
    is_test = detect_role(path) == "test"
    return (
        (scope.path is None or globs.matches(scope.path, path))
        and (scope.language is None or detect_language(path) == scope.language)
        and (scope.module is None or detect_module(path) == scope.module)
        and (scope.tests is None or scope.tests == is_test)
    )


def _order(path: str) -> int:
    return ("core", "config", "docs", "test", "generated").index(detect_role(path))


def _read_uses(path: str, data: bytes, modified: int, name: str, kind: str) -> tuple[list[Use], list[str]]:
    language = detect_script(detect_language(path), data.partition(b"\n")[0].decode(errors="replace"))
    kinds = dict(_classify(language, data, name))
    if not kinds:
        return [], []
    around = list_definitions(language, data)
    named = {each.line for each in around if each.name.rpartition(".")[2] == name}
    lines = data.decode(errors="replace").split("\n")
    found: dict[str | None, list[tuple[int, str]]] = {}
    defined: list[str] = []
    for line, each in kinds.items():
        owner = _find_owner(around, line)
        # A constant of a module or a class is defined where it gets its value.
        is_constant = each == ASSIGNMENT and (owner is None or owner.kind == "class")
        if each == DEFINITION or is_constant or line in named:
            defined.append(f"{path}#L{owner.start_line}-L{owner.end_line}" if owner else f"{path}#L{line}-L{line}")
        elif kind != CALL or each == CALL:
            found.setdefault(owner.name if owner else None, []).append((line, each))
    uses = []
    for symbol, places in found.items():
        shown = [line for line, _ in places[:MAX_LINES_PER_USE]]
        content = "\n".join(f"{line}: {lines[line - 1].strip()[:MAX_LINE_CHARS]}" for line in shown)
        sorts = tuple(dict.fromkeys(each for _, each in places))
        role, module = detect_role(path), detect_module(path)
        uses.append(Use(path, symbol, sorts, tuple(shown), len(places), content, module, role, modified))
    return uses, list(dict.fromkeys(defined))


def _find_owner(definitions: Sequence[Definition], line: int) -> Definition | None:
    """Return the innermost definition that has a line."""
    inner = None
    for each in definitions:
        if each.start_line <= line <= each.end_line and (inner is None or each.start_line >= inner.start_line):
            inner = each
    return inner


def _classify(language: str, data: bytes, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines on which a name is used or defined, and as what. A line with both is a definition."""
    pattern = re.compile(rb"(?<![\w$])" + re.escape(name.encode()) + rb"(?![\w$])")
    if not pattern.search(data):
        return
    if language in GRAMMARS:
        root = parse(language, data).root_node
        kinds: dict[int, str] = {}
        for found in pattern.finditer(data):
            node = root.descendant_for_byte_range(found.start(), found.end())
            kind = None if node is None else _classify_node(node, found.end() - found.start())
            if kind is not None and node is not None:
                line = node.start_point.row + 1
                kinds[line] = min(kinds.get(line, kind), kind, key=_PRECEDENCE.index)
        yield from kinds.items()
        return
    called = re.compile(pattern.pattern + rb"\s*\(")
    for number, text in enumerate(data.split(b"\n"), 1):
        if pattern.search(text):
            yield number, CALL if called.search(text) else REFERENCE


def _classify_node(node: Node, length: int) -> str | None:
    """Return what an identifier is used as, or None if it is a part of a comment or of a text."""
    if any(word in node.type for word in _TEXTS) or node.end_byte - node.start_byte > length + 2:
        return None
    above: Node | None = node.parent
    while above is not None and above.parent is not None:
        # An identifier inside of `${…}` is code, and everything else in a text is not.
        if any(word in above.type for word in _TEXTS) and not _is_interpolated(node, above):
            return None
        if any(word in above.type for word in _IMPORTS):
            return IMPORT
        above = above.parent
    if _is_name_of_definition(node):
        return DEFINITION
    if _is_called(node):
        return CALL
    return ASSIGNMENT if _is_assigned(node) else REFERENCE


def _is_interpolated(node: Node, text: Node) -> bool:
    above: Node | None = node
    while above is not None and above.id != text.id:
        if "interpolation" in above.type or "substitution" in above.type:
            return True
        above = above.parent
    return False


def _is_name_of_definition(node: Node) -> bool:
    above = node.parent
    inner = node
    while above is not None and above.type in ("function_declarator", "pointer_declarator", "qualified_identifier"):
        inner, above = above, above.parent
    if above is None or above.type in _QUALIFIED or not any(above.type.endswith(word) for word in _DEFINING):
        return False
    named = next((found for field in _NAME_FIELDS if (found := above.child_by_field_name(field)) is not None), None)
    return named is not None and named.id == inner.id


def _is_assigned(node: Node) -> bool:
    above = node.parent
    if above is None or above.type not in _ASSIGNMENTS:
        return False
    target = above.child_by_field_name("left") or above.child_by_field_name("name") or above.named_children[0]
    return target.id == node.id


def _is_called(node: Node) -> bool:
    inner, above = node, node.parent
    while above is not None and above.type in _QUALIFIED and above.end_byte == inner.end_byte:
        inner, above = above, above.parent
    if above is None or above.type not in _CALLS:
        return False
    fields = [found for field in _CALLED_FIELDS if (found := above.child_by_field_name(field)) is not None]
    called = fields or above.named_children[:1]
    return any(each.id == inner.id for each in called)
