"""Tools may read through repositories; writes go through use cases.

A repository method writes when its SQL inserts, updates or deletes, or when it calls a method or a function of its
module that does. Emitting an event is a write too: it inserts a row into the outbox.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "shopfloor"
WRITE = re.compile(r"\b(INSERT\s+INTO|INSERT\s+OR|UPDATE\s+\w+|DELETE\s+FROM|REPLACE\s+INTO)\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def functions_of(node: ast.Module | ast.ClassDef) -> dict[str, Function]:
    return {each.name: each for each in node.body if isinstance(each, Function)}


def has_write(node: ast.AST) -> bool:
    """Report whether a function itself has SQL that writes, or asks the connection to execute some."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and WRITE.search(each.value):
            return True
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "execute":
            return True
    return False


def names_used(node: ast.AST) -> set[str]:
    """Return the names and the attributes that a function mentions, by which it may call others of its module."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def writing_functions(tree: ast.Module, class_: ast.ClassDef | None = None) -> set[str]:
    """Return the functions of a module and the methods of one of its classes that write, directly or through others."""
    functions = functions_of(tree) | (functions_of(class_) if class_ else {})
    constants = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and has_write(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    writing = {name for name, node in functions.items() if has_write(node) or names_used(node) & constants}
    while more := {name for name, node in functions.items() if name not in writing and names_used(node) & writing}:
        writing |= more
    return writing


@cache
def repositories() -> dict[str, tuple[set[str], set[str]]]:
    """Return, for each repository class, the methods that read and those that write."""
    found = {}
    for path in (SOURCE / "repositories").glob("*.py"):
        tree = parse(path)
        for class_ in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            writing = writing_functions(tree, class_)
            methods = set(functions_of(class_))
            found[class_.name] = (methods - writing, methods & writing)
    return found


@cache
def attributes() -> dict[str, str]:
    """Return the attributes and methods of UnitOfWork that give a repository, with the name of its class."""
    tree = parse(SOURCE / "repositories" / "uow.py")
    [uow] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "UnitOfWork"]
    annotated = ((name, node.returns) for name, node in functions_of(uow).items() if node.returns is not None)
    found = {name: ast.unparse(returns) for name, returns in annotated if ast.unparse(returns) in repositories()}
    for node in uow.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=class_)])):
                found[name] = class_
    return found


def repository_of(node: ast.expr, known: dict[str, str]) -> str | None:
    """Return the repository class that an expression gives: `uow.mail`, `uow.tasks_of(…)`, or a name bound to one."""
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Call(func=ast.Attribute() as inner):
            return repository_of(inner, known)
        case ast.Attribute(attr=attr, value=ast.Name(id="uow")):
            return attributes().get(attr)
    return None


def known_names(function: Function) -> dict[str, str]:
    """Return the parameters and variables of a function that are repositories."""
    arguments = [*function.args.args, *function.args.kwonlyargs]
    known = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation is not None}
    known = {name: class_ for name, class_ in known.items() if class_ in repositories()}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and (class_ := repository_of(node.value, known)) is not None:
            known |= {target.id: class_ for target in node.targets if isinstance(target, ast.Name)}
    return known


def find_writes(tree: ast.Module) -> Iterator[str]:
    """Find the calls in a module that write past the use cases."""
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        known = known_names(function)
        for node in ast.walk(function):
            if not isinstance(node, ast.Attribute):
                continue
            class_ = repository_of(node.value, known)
            if class_ is not None and node.attr in repositories()[class_][1]:
                yield ast.unparse(node)
            elif node.attr == "emit" and isinstance(node.value, ast.Name) and node.value.id == "uow":
                yield "uow.emit"


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "toolsets").rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_tools_write_only_through_use_cases(path):
    assert list(find_writes(parse(path))) == [], "move the write into a use case"


def test_units_of_work_are_named_uow():
    nodes = (node for path in (SOURCE / "toolsets").rglob("*.py") for node in ast.walk(parse(path)))
    arguments = [node for node in nodes if isinstance(node, ast.arg) and node.annotation is not None]
    units = {node.arg for node in arguments if node.annotation and ast.unparse(node.annotation) == "UnitOfWork"}
    assert units == {"uow"}


def test_reading_and_writing_methods_are_distinguished():
    assert {"users", "mail", "tasks", "tasks_of", "runs", "epics"} <= set(attributes())
    reads, writes = repositories()["Mails"]
    assert {"unmute", "mute"} <= writes
    assert {"list_muted", "list_thread"} <= reads


@pytest.mark.parametrize(
    "source",
    [
        "def f(uow):\n    return uow.mail.unmute('x')",
        "def f(uow):\n    mails = uow.mail\n    return mails.unmute('x')",
        "def f(mails: Mails):\n    mails.unmute('x')",
        "def f(uow):\n    return map(uow.mail.unmute, [])",
        "def f(uow):\n    uow.emit(x)",
    ],
)
def test_write_outside_of_use_cases_is_found(source):
    assert len(list(find_writes(ast.parse(source)))) == 1
    assert list(find_writes(ast.parse(source.replace("unmute", "list_muted").replace("emit", "now")))) == []
