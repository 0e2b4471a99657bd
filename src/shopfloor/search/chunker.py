"""The chunker: cuts a file along its syntax into functions, classes, sections and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from tree_sitter import Node

from shopfloor.domain.chunks import Chunk
from shopfloor.gateways.tree_sitter import GRAMMARS, parse, text_of

MAX_CHUNKS_PER_FILE = 1000

MAX_CHUNK_LINES = 150
"""A longer definition is cut into several chunks."""

MAX_PARAGRAPH_LINES = 40
MAX_GAP_LINES = 3
"""Lines between two statements of a module that keep them in one chunk."""

MAX_MEMBERS = 100
"""Members of a class whose signatures are in its chunk."""

MAX_MERGED_LINES = 80
"""Adjacent definitions of one name, such as overloads, are one chunk up to this size."""

MAX_SIGNATURE_CHARS = 300
MAX_NAME_CHARS = 200
MAX_SYNTAX_DEPTH = 60
MIN_TEXT_CHARS = 4
"""A shorter rest of a module, such as a bracket, is not worth a chunk."""

MAX_DEFINITION_CHARS = 400
"""Of a line that is looked at for a definition. The time that a pattern takes grows with more than the length."""

MAX_MEAN_LINE_CHARS = 1000
"""Files with longer lines are generated; only their beginning is indexed."""
MAX_GENERATED_CHARS = 4000

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
        "object_declaration",
        "companion_object",
        "object_definition",
        "trait_definition",
        "enum_definition",
        "protocol_declaration",
        "instance",
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
        "secondary_constructor",
        "init_declaration",
        "protocol_function_declaration",
        "typealias_declaration",
        "given_definition",
        "signature",
        "function",
        "bind",
        "data_type",
        "newtype",
        "type_synonym",
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
        "haskell",
        "declarations",
        "package_clause",
        "file_scoped_namespace_declaration",
        "namespace_definition",
        "template_body",
    ]
)
_ASSIGNED = frozenset({"assignment_expression", "public_field_definition", "field_definition"})
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "function", "class", "generator_function"})
_ABOVE = frozenset(
    {
        "comment",
        "line_comment",
        "block_comment",
        "multiline_comment",
        "haddock",
        "attribute_item",
        "attribute_list",
        "unary_operator",
    }
)
_VARIABLES = frozenset({"lexical_declaration", "variable_declaration", "assignment_statement"})
_BODY_FIELDS = ("body", "declarations")
_BODIES = frozenset({"class_body", "enum_class_body", "do_block"})
"""Bodies that are children without a field of their own."""
_ZIG_CONTAINERS = frozenset({"struct_declaration", "enum_declaration", "union_declaration", "opaque_declaration"})
_ELIXIR_CONTAINERS = frozenset({"defmodule", "defprotocol", "defimpl"})
_ELIXIR_LEAVES = frozenset({"def", "defp", "defmacro", "defmacrop", "defguard", "defdelegate"})
_KINDS = (("class", "class"), ("interface", "class"), ("struct", "class"), ("enum", "class"), ("trait", "class"))
_EMPTY = Chunk("", "text", 1, 1, "", "")
_PROSE = frozenset({"text", "restructuredtext", "json", "yaml", "toml", "ini", "xml", "html", "css", "scss"})
_SHEBANG = re.compile(r"#!\s*\S*?(?:env\s+)?(?:-S\s+)?([a-z]+)[\d.]*(?:\s|$)")
_SCRIPT_LANGUAGES = {
    "sh": "shell", "bash": "shell", "dash": "shell", "ksh": "shell", "zsh": "shell", "python": "python",
    "ruby": "ruby", "node": "javascript", "lua": "lua", "php": "php", "perl": "perl",
}  # fmt: skip
_DEFINITION = re.compile(
    r"""(\s*)
    (?:(?:export|pub|public|private|protected|internal|static|abstract|final|async|local|inline|override|virtual)\s+)*
    (?:
        (?:def|defn|defn-|defmacro|func|fun|fn|function|sub|proc|macro|method|rpc)\s+
      | (class|struct|interface|trait|module|package|type|enum|message|service|protocol|mixin|extension|@interface
          |@implementation|(?:CREATE\s+(?:OR\s+REPLACE\s+)?(?:TABLE|VIEW|FUNCTION|PROCEDURE|TRIGGER|INDEX)
          (?:\s+IF\s+NOT\s+EXISTS)?)|resource|data|variable)\s+
    )
    ["`]?([A-Za-z_$][\w$]*(?:(?:\.|::)\w+)*)
    | ([A-Za-z_]\w*)\s*\(\s*\)\s*\{ """,
    re.VERBOSE | re.IGNORECASE,
)
"""A line that defines something, in a language without a grammar."""

_ASSIGNMENT = re.compile(
    r"""\s*(?!(?:import|return|using|use|package|from|include|require|throw|raise|delete|goto|typedef|else|case)\b)(?:
        \#\s*define\s+(\w+)
      | (?:(?:export|default|pub|pub\([a-z]+\)|public|private|protected|internal|static|final|readonly|const|constexpr
          |let|var|val|local|our|my|declare|lateinit|override|readonly|mut|extern|unsigned)\s+)*
        [$@%]?([A-Za-z_]\w*)\s*(?::[^=()]*)?(?:=(?![=>~])|:\s*\S)
      | (?:[\w<>,:.\[\]?]+[\s*&]+)+(\w+)\s*(?:\[[^\]]*\])?\s*(?:=[^=]|;|\{\s*(?:get|set|init)\b)
      | ([A-Z][A-Z0-9_]+)\s*(?:,|=|$)
    )""",
    re.VERBOSE,
)
"""A line that gives a name to a value: a constant, a variable, a field, a setting or a member of an enumeration."""

_COMMENT = re.compile(r"\s*(?:#|//|--|;|%|/?\*|\"\"\")")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")


@dataclass(slots=True)
class _Definition:
    name: str
    kind: str
    first: int
    last: int
    line: int
    """Where it is named; comments and decorators are above."""
    signature: str
    container: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, class or section of a file, with its comments: its lines, and how deep it is nested."""

    name: str
    kind: str
    start_line: int
    end_line: int
    line: int
    signature: str
    depth: int


def chunk_file(language: str, source: bytes) -> list[Chunk]:
    """Return the chunks of a file in the order of their first lines. An empty file has one, which its path is found by."""
    text = source.decode(errors="replace")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines:
        return [_EMPTY]
    # Minified or generated: chunks of its lines would be huge, and say nothing.
    if len(text) > MAX_MEAN_LINE_CHARS * len(lines):
        return [Chunk("", "text", 1, len(lines), "", text[:MAX_GENERATED_CHARS])]
    language = detect_script(language, lines[0])
    if language in GRAMMARS:
        chunks = _chunk_by_syntax(language, source, lines)
    elif language == "markdown":
        chunks = _chunk_by_headings(lines)
    elif language in _PROSE:
        chunks = list(_chunk_by_paragraphs(lines, 0, len(lines), "", "text"))
    else:
        chunks = _chunk_by_patterns(lines)
    return chunks[:MAX_CHUNKS_PER_FILE] or [_EMPTY]


def detect_script(language: str, first_line: str) -> str:
    """Return the language of a file, by its first line if its name says nothing."""
    if language == "text" and (script := _SHEBANG.match(first_line)):
        return _SCRIPT_LANGUAGES.get(script[1], "script")
    return language


def list_definitions(language: str, source: bytes) -> list[Definition]:
    """Return the definitions in a file in their order, outer ones before inner ones."""
    language = detect_script(language, source.partition(b"\n")[0].decode(errors="replace"))
    # Minified files have lines that say nothing, as in `chunk_file`.
    if language not in GRAMMARS or len(source) > MAX_MEAN_LINE_CHARS * (source.count(b"\n") + 1):
        return _list_chunk_definitions(chunk_file(language, source))
    found: list[_Definition] = []
    _collect(parse(language, source).root_node, "", found, 0)
    definitions = []
    around: list[_Definition] = []
    for each in found:
        while around and around[-1].last < each.first:
            around.pop()
        definitions.append(
            Definition(each.name, each.kind, each.first + 1, each.last + 1, each.line + 1, each.signature, len(around))
        )
        if each.container:
            around.append(each)
    return definitions


def _list_chunk_definitions(chunks: Sequence[Chunk]) -> list[Definition]:
    """Return the definitions of a file without a grammar. The parts of a long one are one definition."""
    definitions: list[Definition] = []
    for name, own in groupby((chunk for chunk in chunks if chunk.name), lambda chunk: chunk.name):
        parts = list(own)
        first, last = parts[0], parts[-1]
        is_section = first.kind == "section"
        title = name.rpartition(" > ")[2] if is_section else first.signature
        depth = name.count(" > " if is_section else ".")
        lines = first.start_line, last.end_line, first.start_line
        definitions.append(Definition(name, first.kind, *lines, title, depth))
    return definitions


def _chunk_by_syntax(language: str, source: bytes, lines: list[str]) -> list[Chunk]:
    definitions: list[_Definition] = []
    _collect(parse(language, source).root_node, "", definitions, 0)
    owner: list[int | None] = [None] * len(lines)
    # Inner ones come after outer ones, and take their lines over.
    for place, definition in enumerate(definitions):
        owner[definition.first : definition.last + 1] = [place] * (definition.last + 1 - definition.first)
    own: dict[int | None, list[int]] = {}
    for taken, run in groupby(range(len(lines)), owner.__getitem__):
        own.setdefault(taken, []).extend(run)
    members = _list_members(definitions)
    chunks = [
        chunk
        for place, definition in enumerate(definitions)
        for chunk in _definition_chunks(definition, own.get(place, []), lines, members.get(place, []))
    ]
    chunks += _loose_chunks(own.get(None, []), lines)
    return sorted(chunks, key=lambda chunk: (chunk.start_line, -chunk.end_line))


def _list_members(definitions: Sequence[_Definition]) -> dict[int, list[str]]:
    """Return the signatures of the members of each container, by its place."""
    members: dict[int, list[str]] = {}
    around: list[int] = []
    for place, definition in enumerate(definitions):
        while around and definitions[around[-1]].last < definition.first:
            around.pop()
        if around:
            members.setdefault(around[-1], []).append(definition.signature)
        if definition.container:
            around.append(place)
    return members


def _definition_chunks(
    definition: _Definition, own: list[int], lines: list[str], members: Sequence[str]
) -> Iterator[Chunk]:
    """Yield the chunks of a definition: one or, if it is long, several.

    A container has its head, its loose lines and the signatures of its members.
    """
    name, kind, signature = definition.name, definition.kind, definition.signature
    if definition.container:
        own = own or [definition.first]
        head = own[0]
        last = next((number for number, after in pairwise(own) if after != number + 1), own[-1])
        body = "\n".join([_join_lines(own[: MAX_CHUNK_LINES * 2], lines), *members[:MAX_MEMBERS]])
        yield Chunk(name, kind, head + 1, last + 1, signature, body, _find_assigned(own, lines))
        return
    for start in range(0, len(own), MAX_CHUNK_LINES):
        part = own[start : start + MAX_CHUNK_LINES]
        yield Chunk(name, kind, part[0] + 1, part[-1] + 1, signature, _join_lines(part, lines))


def _join_lines(own: list[int], lines: list[str]) -> str:
    """Join lines into one text; most often they are adjacent."""
    first, last = own[0], own[-1]
    whole = last - first + 1 == len(own)
    return "\n".join(lines[first : last + 1] if whole else [lines[number] for number in own])


def _loose_chunks(own: list[int], lines: list[str]) -> Iterator[Chunk]:
    """Yield chunks of the lines outside of definitions."""
    run: list[int] = []
    for number in own:
        if run and (number - run[-1] > MAX_GAP_LINES or len(run) >= MAX_PARAGRAPH_LINES):
            yield from _line_chunk(run, lines)
            run = []
        run.append(number)
    yield from _line_chunk(run, lines)


def _line_chunk(run: list[int], lines: list[str]) -> Iterator[Chunk]:
    if not run:
        return
    body = _join_lines(run, lines)
    if len(body.strip()) >= MIN_TEXT_CHARS:
        yield Chunk("", "module", run[0] + 1, run[-1] + 1, "", body, _find_assigned(run, lines))


def _find_assigned(own: Sequence[int], lines: list[str]) -> tuple[str, ...]:
    """Return the names of the constants, variables, fields and settings that loose lines of a module or class define."""
    found = (_ASSIGNMENT.match(lines[number][:MAX_DEFINITION_CHARS]) for number in own)
    names = dict.fromkeys(next(filter(None, each.groups())) for each in found if each is not None)
    return tuple(names)[:MAX_MEMBERS]


def _collect(node: Node, outer: str, found: list[_Definition], depth: int) -> None:
    """Collect every definition that is not inside a function."""
    # Files nest as deep as their authors like; Python's stack does not.
    if depth > MAX_SYNTAX_DEPTH:
        return
    for child in node.named_children:
        kind = child.type
        body = _find_body(child) if kind in CONTAINERS else None
        if body is not None:
            _collect(body, _add_definition(child, outer, found, container=True), found, depth + 1)
        elif kind == "call":
            _collect_elixir(child, outer, found, depth)
        elif kind in _VARIABLES:
            _collect_variables(child, outer, found, depth)
        elif _is_leaf(child):
            _add_definition(child, outer, found, container=False)
        elif kind in STRUCTURE:
            _collect(child, outer, found, depth + 1)


def _is_leaf(node: Node) -> bool:
    """Return whether a node defines something that holds no other definitions."""
    if node.type in _ASSIGNED:
        # `exports.name = () => …`, and the same as a field of a class.
        value = node.child_by_field_name("right") or node.child_by_field_name("value")
        return value is not None and value.type in _FUNCTIONS
    # `val name = 1` is a line of its class. A property with a body has a chunk.
    if node.type == "property_declaration" and node.start_point.row == node.end_point.row:
        return False
    # A record, or a class of Kotlin or Scala, without a body is still a definition.
    return node.type in LEAVES or node.type in ("record_declaration", "class_definition", "class_declaration")


def _collect_variables(node: Node, outer: str, found: list[_Definition], depth: int) -> None:
    """Collect `const name = () => …`, which defines a function; other variables are part of the module."""
    # Lua: `M.name = function() … end`, with or without `local`.
    if node.type == "assignment_statement":
        value = node.named_children[-1].child_by_field_name("value")
        if value is not None and value.type == "function_definition":
            _add_definition(node, outer, found, container=False)
        return
    for variable in node.named_children:
        value = variable.child_by_field_name("value")
        if variable.type == "assignment_statement":
            _collect_variables(variable, outer, found, depth)
        elif value is not None and value.type in _FUNCTIONS:
            _add_definition(variable, outer, found, container=False, around=node)
        # Zig: `const Name = struct { … };`
        elif variable.type in _ZIG_CONTAINERS:
            _collect(variable, _add_definition(node, outer, found, container=True), found, depth + 1)


def _collect_elixir(node: Node, outer: str, found: list[_Definition], depth: int) -> None:
    """Collect the definitions of Elixir, which are calls of macros."""
    macro = text_of(node.child_by_field_name("target"))
    if macro in _ELIXIR_CONTAINERS:
        name = _add_definition(node, outer, found, container=True)
        body = _find_body(node)
        if body is not None:
            _collect(body, name, found, depth + 1)
    elif macro in _ELIXIR_LEAVES:
        _add_definition(node, outer, found, container=False)


def _find_body(node: Node) -> Node | None:
    """Return the part of a definition that holds its members or statements."""
    for field in _BODY_FIELDS:
        if (body := node.child_by_field_name(field)) is not None:
            return body
    return next((child for child in node.named_children if child.type in _BODIES), None)


def _add_definition(
    node: Node, outer: str, found: list[_Definition], *, container: bool, around: Node | None = None
) -> str:
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
    name = _get_name(node)
    full = f"{outer}.{name}" if outer and name else name or outer
    before = found[-1] if found else None
    # Overloads, a type signature above its function, and the clauses of one function are one definition.
    if (
        before is not None
        and not (container or before.container)
        and before.name == full
        and first.start_point.row - before.last <= MAX_GAP_LINES
        and _end_row(whole) - before.first < MAX_MERGED_LINES
    ):
        before.last = _end_row(whole)
        before.signature = f"{before.signature} {_get_signature(node)}"[:MAX_SIGNATURE_CHARS]
        return full
    found.append(
        _Definition(
            name=full,
            kind=_get_kind(node, outer, container=container),
            first=first.start_point.row,
            last=_end_row(whole),
            line=node.start_point.row,
            signature=_get_signature(node),
            container=container,
        )
    )
    return full


def _end_row(node: Node | None) -> int:
    """Return the last row on which the node has text."""
    if node is None:
        return -1
    row, column = node.end_point
    return row - 1 if column == 0 and row > node.start_point.row else row


def _get_kind(node: Node, outer: str, *, container: bool) -> str:
    for word, kind in _KINDS:
        if word in node.type:
            return kind
    if container or "type" in node.type:
        return "class"
    return "method" if outer else "function"


def _get_name(node: Node) -> str:
    if node.type == "impl_item":
        return text_of(node.child_by_field_name("type")).partition("<")[0]
    if node.type == "call":
        return _get_elixir_name(node)
    if node.type in ("init_declaration", "secondary_constructor", "companion_object"):
        return {"init_declaration": "init", "secondary_constructor": "constructor"}.get(node.type, "Companion")
    if node.type in ("assignment_statement", "variable_declaration"):
        return text_of(node.named_children[0]).replace(":", ".")[:MAX_NAME_CHARS]
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    if node.type == "assignment_expression":
        return text_of(node.child_by_field_name("left")).rpartition(".")[2][:MAX_NAME_CHARS]
    around = node.parent if name is None and node.type.endswith("_specifier") else None
    # typedef struct { … } name
    if around is not None and around.type == "type_definition":
        name = around.child_by_field_name("declarator")
    declarator = node.child_by_field_name("declarator")
    # C nests the name inside the declarator.
    while name is None and declarator is not None:
        inner = declarator.child_by_field_name("declarator")
        name = declarator if inner is None else None
        declarator = inner
    # Kotlin has the name of a type without a field.
    if name is None:
        name = next((child for child in node.named_children if child.type.endswith("identifier")), None)
    text = text_of(name)
    receiver = node.child_by_field_name("receiver")
    # A method of Go has its type in the receiver, not around it.
    if receiver is not None:
        owner = re.findall(r"\w+", text_of(receiver).partition("[")[0])
        return f"{owner[-1]}.{text}" if owner else text
    return text.replace("::", ".").replace(":", ".")[:MAX_NAME_CHARS]


def _get_elixir_name(node: Node) -> str:
    """Return the name that `def name(…) when … do` or `defimpl Name, for: Type do` defines."""
    arguments = next((child for child in node.named_children if child.type == "arguments"), None)
    head = arguments.named_children[0] if arguments is not None and arguments.named_children else None
    if head is not None and head.type == "binary_operator":
        head = head.child_by_field_name("left")
    if head is not None and head.type == "call":
        head = head.child_by_field_name("target")
    return text_of(head)[:MAX_NAME_CHARS]


def _get_signature(node: Node) -> str:
    body = _find_body(node)
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if body is None and value is not None:
        body = value.child_by_field_name("body")
    source = node.text or b""
    head = source[: body.start_byte - node.start_byte] if body is not None else source.partition(b"\n")[0]
    return " ".join(head.decode(errors="replace").split())[:MAX_SIGNATURE_CHARS]


def _chunk_by_patterns(lines: list[str]) -> list[Chunk]:
    """Cut a file of a language without a grammar at the lines that define something, with the comments above them."""
    starts: list[tuple[int, str, str, str]] = []
    owners: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        found = _DEFINITION.match(line[:MAX_DEFINITION_CHARS])
        if found is None or _COMMENT.match(line):
            continue
        indent, container, name = len(found[1] or ""), found[2], found[3] or found[4]
        owners = [each for each in owners if each[0] < indent]
        full = ".".join([*(owner for _, owner in owners), name.replace("::", ".")])
        first = number
        while first and _COMMENT.match(lines[first - 1]) and (not starts or first - 1 > starts[-1][0]):
            first -= 1
        kind = "class" if container else "method" if owners else "function"
        starts.append((first, full, kind, line.strip()[:MAX_SIGNATURE_CHARS]))
        if container:
            owners.append((indent, full))
    first = starts[0][0] if starts else len(lines)
    chunks = list(_chunk_by_paragraphs(lines, 0, first, "", "module" if starts else "text"))
    for place, (start, name, kind, signature) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(lines)
        for part in range(start, end, MAX_CHUNK_LINES):
            last = min(part + MAX_CHUNK_LINES, end)
            body = "\n".join(lines[part:last]).rstrip()
            if body.strip():
                chunks.append(Chunk(name, kind, part + 1, part + 1 + body.count("\n"), signature, body))
    return chunks


def _chunk_by_headings(lines: list[str]) -> list[Chunk]:
    chunks: list[Chunk] = []
    titles: list[tuple[int, str]] = []
    start, fenced = 0, False
    for number, line in enumerate([*lines, "# "]):
        # A # inside a fenced block is a comment of its language.
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        heading = _HEADING.match(line) if not fenced or number == len(lines) else None
        if heading is None:
            continue
        name = " > ".join(title for _, title in titles)
        chunks += _chunk_by_paragraphs(lines, start, number, name, "section")
        # Not in the pattern: a line of 10,000 spaces would be tried in all ways to divide them.
        title = heading[2].rstrip().rstrip("#").rstrip()
        titles = [*(each for each in titles if each[0] < len(heading[1])), (len(heading[1]), title)]
        start = number
    return chunks


def _chunk_by_paragraphs(lines: list[str], first: int, last: int, name: str, kind: str) -> Iterator[Chunk]:
    """Yield chunks of lines, cut at a blank line where there is one."""
    start = first
    while start < last:
        end = min(start + MAX_PARAGRAPH_LINES, last)
        if end < last:
            blank = next(
                (number for number in range(end, start + MAX_PARAGRAPH_LINES // 2, -1) if not lines[number].strip()),
                None,
            )
            end = end if blank is None else blank + 1
        body = "\n".join(lines[start:end])
        if body.strip():
            yield Chunk(name, kind, start + 1, end, "", body)
        start = end
