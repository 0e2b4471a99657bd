"""Files cut along their syntax: functions, classes, headings, paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from tree_sitter import Node

from shopfloor.domain.chunks import Chunk
from shopfloor.gateways.syntax import GRAMMARS, parse, text_of

MOST = 1000
"""Chunks of one file."""

LONGEST = 150
"""Lines of one chunk; what is longer is cut into several."""

_RUN = 40
_SIGNATURE = 300
_WIDE = 1000

CONTAINERS = frozenset(
    [
        "class_definition",
        "class_declaration",
        "abstract_class_declaration",
        "interface_declaration",
        "enum_declaration",
        "record_declaration",
        "struct_declaration",
        "trait_declaration",
        "impl_item",
        "trait_item",
        "mod_item",
        "class",
        "module",
        "class_specifier",
        "struct_specifier",
        "namespace_definition",
        "namespace_declaration",
        "file_scoped_namespace_declaration",
        "internal_module",
        "annotation_type_declaration",
        "union_specifier",
        "enum_specifier",
    ]
)
LEAVES = frozenset(
    [
        "function_definition",
        "function_declaration",
        "generator_function_declaration",
        "method_definition",
        "method_declaration",
        "constructor_declaration",
        "type_alias_declaration",
        "function_item",
        "struct_item",
        "enum_item",
        "macro_definition",
        "type_item",
        "union_item",
        "method",
        "singleton_method",
        "preproc_function_def",
        "property_declaration",
        "function_signature",
        "abstract_method_signature",
        "function_signature_item",
        "type_spec",
        "type_alias",
    ]
)
STRUCTURE = frozenset(
    [
        "decorated_definition",
        "export_statement",
        "template_declaration",
        "block",
        "class_body",
        "declaration_list",
        "body_statement",
        "interface_body",
        "enum_body",
        "enum_body_declarations",
        "field_declaration_list",
        "statement_block",
        "preproc_ifdef",
        "preproc_if",
        "preproc_else",
        "linkage_specification",
        "if_statement",
        "try_statement",
        "else_clause",
        "except_clause",
        "finally_clause",
        "type_declaration",
        "ambient_declaration",
        "lexical_declaration",
        "variable_declaration",
        "declaration",
        "type_definition",
        "compound_statement",
        "expression_statement",
        "program",
        "module",
        "source_file",
        "translation_unit",
        "compilation_unit",
    ]
)
_ASSIGNED = frozenset({"assignment_expression", "public_field_definition", "field_definition"})
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "function", "class", "generator_function"})
_ABOVE = frozenset({"comment", "line_comment", "block_comment", "attribute_item", "attribute_list"})
_KINDS = (("class", "class"), ("interface", "class"), ("struct", "class"), ("enum", "class"), ("trait", "class"))
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")


@dataclass(slots=True)
class _Definition:
    name: str
    kind: str
    first: int
    last: int
    signature: str
    container: bool


def chunks_of(language: str, source: bytes) -> list[Chunk]:
    """The chunks of a file, in order of their first line."""
    text = source.decode(errors="replace")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines:
        return []
    if len(text) > _WIDE * len(lines):  # written by a machine, for machines
        return [Chunk("", "text", 1, len(lines), "", text[: _WIDE * 4])]
    if language in GRAMMARS:
        chunks = _by_syntax(language, source, lines)
    elif language == "markdown":
        chunks = _by_headings(lines)
    else:
        chunks = list(_by_paragraphs(lines, 0, len(lines), "", "text"))
    return chunks[:MOST]


def _by_syntax(language: str, source: bytes, lines: list[str]) -> list[Chunk]:
    definitions: list[_Definition] = []
    _collect(parse(language, source).root_node, "", definitions, 0)
    owner: list[int | None] = [None] * len(lines)
    for place, definition in enumerate(definitions):  # inner ones come after outer ones, and take the lines over
        owner[definition.first : definition.last + 1] = [place] * (definition.last + 1 - definition.first)
    own: dict[int | None, list[int]] = {}
    for taken, run in groupby(range(len(lines)), owner.__getitem__):
        own.setdefault(taken, []).extend(run)
    chunks = [
        chunk
        for place, definition in enumerate(definitions)
        for chunk in _pieces(definition, own.get(place, []), lines)
    ]
    chunks += _rest(own.get(None, []), lines)
    return sorted(chunks, key=lambda chunk: (chunk.start_line, -chunk.end_line))


def _pieces(definition: _Definition, own: list[int], lines: list[str]) -> Iterator[Chunk]:
    """A definition as one chunk, or as several when it is long; of a container its head, and what no member has taken."""
    name, kind, signature = definition.name, definition.kind, definition.signature
    if definition.container:
        own = own or [definition.first]
        head = own[0]
        last = next((number for number, after in pairwise(own) if after != number + 1), own[-1])
        yield Chunk(name, kind, head + 1, last + 1, signature, _joined(own[: LONGEST * 2], lines))
        return
    for start in range(0, len(own), LONGEST):
        part = own[start : start + LONGEST]
        yield Chunk(name, kind, part[0] + 1, part[-1] + 1, signature, _joined(part, lines))


def _joined(own: list[int], lines: list[str]) -> str:
    """These lines as one text; most often they lie side by side."""
    first, last = own[0], own[-1]
    whole = last - first + 1 == len(own)
    return "\n".join(lines[first : last + 1] if whole else [lines[number] for number in own])


def _rest(own: list[int], lines: list[str]) -> Iterator[Chunk]:
    """What belongs to no definition, in runs."""
    run: list[int] = []
    for number in own:
        if run and (number - run[-1] > 3 or len(run) >= _RUN):
            yield from _run(run, lines)
            run = []
        run.append(number)
    yield from _run(run, lines)


def _run(run: list[int], lines: list[str]) -> Iterator[Chunk]:
    if not run:
        return
    body = _joined(run, lines)
    if len(body.strip()) > 3:
        yield Chunk("", "module", run[0] + 1, run[-1] + 1, "", body)


def _collect(node: Node, outer: str, found: list[_Definition], depth: int) -> None:
    """Every definition that is not inside of a function."""
    if depth > 60:
        return
    for child in node.named_children:
        kind = child.type
        if kind in LEAVES:
            _add(child, outer, found, container=False)
        elif kind in CONTAINERS and child.child_by_field_name("body") is not None:
            name = _add(child, outer, found, container=True)
            _collect(_body(child), name, found, depth + 1)
        elif kind == "record_declaration":
            _add(child, outer, found, container=False)
        elif kind in _ASSIGNED:
            _collect_assigned(child, outer, found)
        elif kind in ("file_scoped_namespace_declaration", "namespace_definition"):
            _collect(child, outer, found, depth + 1)
        elif kind in ("lexical_declaration", "variable_declaration"):
            _collect_variables(child, outer, found)
        elif kind in STRUCTURE:
            _collect(child, outer, found, depth + 1)


def _collect_variables(node: Node, outer: str, found: list[_Definition]) -> None:
    """`const name = () => …` defines a function; other variables are part of the module."""
    for variable in node.named_children:
        value = variable.child_by_field_name("value")
        if value is not None and value.type in _FUNCTIONS:
            _add(variable, outer, found, container=False, around=node)


def _collect_assigned(node: Node, outer: str, found: list[_Definition]) -> None:
    """`exports.name = () => …`, and the same as a field of a class."""
    value = node.child_by_field_name("right") or node.child_by_field_name("value")
    if value is not None and value.type in _FUNCTIONS:
        _add(node, outer, found, container=False)


def _body(node: Node) -> Node:
    return node.child_by_field_name("body") or node


def _add(node: Node, outer: str, found: list[_Definition], *, container: bool, around: Node | None = None) -> str:
    whole = around or node
    while whole.parent is not None and whole.parent.type in (
        "decorated_definition",
        "export_statement",
        "template_declaration",
    ):
        whole = whole.parent
    first = whole
    while (
        (above := first.prev_sibling) is not None
        and above.type in _ABOVE
        and (above.end_point.row >= first.start_point.row - 1 and above.start_point.row > _end_row(above.prev_sibling))
    ):
        first = above
    name = _name(node)
    full = f"{outer}.{name}" if outer and name else name or outer
    found.append(
        _Definition(
            name=full,
            kind=_kind(node, outer, container=container),
            first=first.start_point.row,
            last=_end_row(whole),
            signature=_signature(node),
            container=container,
        )
    )
    return full


def _end_row(node: Node | None) -> int:
    """The last row that holds something of the node."""
    if node is None:
        return -1
    row, column = node.end_point
    return row - 1 if column == 0 and row > node.start_point.row else row


def _kind(node: Node, outer: str, *, container: bool) -> str:
    for word, kind in _KINDS:
        if word in node.type:
            return kind
    if container or "type" in node.type:
        return "class"
    return "method" if outer else "function"


def _name(node: Node) -> str:
    if node.type == "impl_item":
        return text_of(node.child_by_field_name("type")).partition("<")[0]
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    if node.type == "assignment_expression":
        return text_of(node.child_by_field_name("left")).rpartition(".")[2][:200]
    around = node.parent if name is None and node.type.endswith("_specifier") else None
    if around is not None and around.type == "type_definition":  # typedef struct { … } name
        name = around.child_by_field_name("declarator")
    declarator = node.child_by_field_name("declarator")
    while name is None and declarator is not None:  # C hides the name inside of what it declares
        inner = declarator.child_by_field_name("declarator")
        name = declarator if inner is None else None
        declarator = inner
    text = text_of(name)
    receiver = node.child_by_field_name("receiver")
    if receiver is not None:  # Go
        owner = re.findall(r"\w+", text_of(receiver).partition("[")[0])
        return f"{owner[-1]}.{text}" if owner else text
    return text.replace("::", ".")[:200]


def _signature(node: Node) -> str:
    body = node.child_by_field_name("body")
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if body is None and value is not None:
        body = value.child_by_field_name("body")
    source = node.text or b""
    head = source[: body.start_byte - node.start_byte] if body is not None else source.partition(b"\n")[0]
    return " ".join(head.decode(errors="replace").split())[:_SIGNATURE]


def _by_headings(lines: list[str]) -> list[Chunk]:
    chunks: list[Chunk] = []
    titles: list[tuple[int, str]] = []
    start, fenced = 0, False
    for number, line in enumerate([*lines, "# "]):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        heading = _HEADING.match(line) if not fenced or number == len(lines) else None
        if heading is None:
            continue
        name = " > ".join(title for _, title in titles)
        chunks += _by_paragraphs(lines, start, number, name, "section")
        titles = [*(each for each in titles if each[0] < len(heading[1])), (len(heading[1]), heading[2])]
        start = number
    return chunks


def _by_paragraphs(lines: list[str], first: int, last: int, name: str, kind: str) -> Iterator[Chunk]:
    """Lines in runs that end at an empty line where there is one."""
    start = first
    while start < last:
        end = min(start + _RUN, last)
        if end < last:
            blank = next((number for number in range(end, start + _RUN // 2, -1) if not lines[number].strip()), None)
            end = end if blank is None else blank + 1
        body = "\n".join(lines[start:end])
        if body.strip():
            yield Chunk(name, kind, start + 1, end, "", body)
        start = end
