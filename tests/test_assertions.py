"""Every test asserts something in every case: not only in one branch, and not only in a loop that may be empty."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
Function = ast.FunctionDef | ast.AsyncFunctionDef

CONDITIONAL = {
    (
        "toolsets/todo/test_isolation.py",
        "test_random_operations_of_two_users_never_interfere",
    ): "a model; its end is always compared",
}
"""By file and test: why an assertion depends on a condition there."""

WITHOUT_ASSERTION = {
    ("test_docs.py", "test_python_examples_run"): "an example that fails raises",
}
"""By file and test: what fails there instead of an assertion."""

CHECKS = {"raises", "fail", "wait_for_url", "run_state_machine_as_test"}
"""Functions of libraries that raise when an expectation is not met."""

ITERATORS = {"enumerate", "items", "keys", "reversed", "sorted", "values", "zip"}
"""Functions whose result is empty only if an argument is."""


@cache
def parse_tests() -> dict[str, ast.Module]:
    """Parse every file of the tests, by its path."""
    files = (file for file in HERE.rglob("*.py") if "node_modules" not in file.parts)
    return {str(file.relative_to(HERE)): ast.parse(file.read_text("utf-8")) for file in files}


def find_functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def find_tests(tree: ast.AST) -> Iterator[Function]:
    return (node for node in find_functions(tree) if node.name.startswith("test_"))


def list_modules() -> list[tuple[str, ast.Module]]:
    """Return the files with tests; others have functions that are only named like one."""
    return [(path, tree) for path, tree in parse_tests().items() if Path(path).name.startswith("test_")]


def name_of(function: ast.expr) -> str:
    """Return the last name of what is called: `raises` for `pytest.raises`."""
    return str(getattr(function, "attr", getattr(function, "id", "")))


def is_check(node: ast.AST, checks: set[str]) -> bool:
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and name_of(node.func) in checks)


def has_check(nodes: list[ast.stmt], checks: set[str]) -> bool:
    return any(is_check(node, checks) for statement in nodes for node in ast.walk(statement))


@cache
def find_checks() -> set[str]:
    """Return the names of functions that assert, directly or through others of the tests."""
    called: dict[str, set[str]] = {}
    for function in (function for tree in parse_tests().values() for function in find_functions(tree)):
        names = {name_of(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
        asserts = {"fail"} if any(isinstance(node, ast.Assert) for node in ast.walk(function)) else set()
        called.setdefault(function.name, set()).update(names, asserts)
    checks = set(CHECKS)
    while more := {name for name, names in called.items() if name not in checks and names & checks}:
        checks |= more
    return checks


def find_conditional(tree: ast.AST) -> Iterator[str]:
    """Find the tests with an assertion that runs under a condition only."""
    for test in find_tests(tree):
        branches = (node for node in ast.walk(test) if isinstance(node, ast.If))
        if any(has_check(node.body, CHECKS) != has_check(node.orelse, CHECKS) for node in branches):
            yield test.name


def is_filled(node: ast.expr, filled: set[str]) -> bool:
    """Report whether an expression cannot be an empty collection, as far as its text says."""
    match node:
        case ast.Name(id=name):
            return name.isupper() or name in filled
        case ast.Attribute(attr=name):
            return name.isupper()
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return any(not isinstance(each, ast.Starred) or is_filled(each.value, filled) for each in elements)
        case ast.Dict(keys=keys):
            return bool(keys)
        case ast.Constant(value=str() | bytes() as text):
            return bool(text)
        case ast.Subscript(value=value, slice=ast.Slice()):
            return is_filled(value, filled)
        case ast.Call(func=ast.Name(id="range")):
            return True
        case ast.Call(func=function, args=arguments) if name_of(function) in ITERATORS:
            owner = [function.value] if isinstance(function, ast.Attribute) else []
            return all(is_filled(each, filled) for each in [*arguments, *owner])
    return False


def list_names(node: ast.AST) -> set[str]:
    """Return the names that a loop or an assignment binds."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def asserts_always(statements: list[ast.stmt], filled: set[str], checks: set[str]) -> bool:
    """Report whether an assertion runs even if every loop over a collection that may be empty is skipped."""
    for statement in statements:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                continue  # it asserts when it is called, and a call of it is found by its name
            case ast.For(target=target, iter=source, body=body) | ast.AsyncFor(target=target, iter=source, body=body):
                found = is_filled(source, filled) and asserts_always(body, filled | list_names(target), checks)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                opening: list[ast.stmt] = [ast.Expr(item.context_expr) for item in items]
                found = asserts_always([*opening, *body], filled, checks)
            case ast.Try(body=body, finalbody=final):
                found = asserts_always([*body, *final], filled, checks)
            case _:
                found = has_check([statement], checks)
        if found:
            return True
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value and is_filled(statement.value, filled):
            filled = filled | list_names(statement)
    return False


def find_vacuous(tree: ast.AST, checks: set[str]) -> Iterator[str]:
    """Find the tests that may end without an assertion. What a test is given as an argument counts as filled."""
    for test in find_tests(tree):
        arguments = {each.arg for each in [*test.args.args, *test.args.kwonlyargs]}
        inner = {each.name for each in find_functions(test) if each is not test and has_check(each.body, checks)}
        if not asserts_always(test.body, arguments, checks | inner):
            yield test.name


def test_no_assertion_is_conditional():
    found = {(path, name) for path, tree in list_modules() for name in find_conditional(tree)}
    assert found == set(CONDITIONAL), "assert in both branches, or compute what is expected and assert once"


def test_every_test_asserts_something():
    found = {(path, name) for path, tree in list_modules() for name in find_vacuous(tree, find_checks())}
    assert found == set(WITHOUT_ASSERTION), (
        "assert outside of the loop too, for example that there is something to loop over"
    )


def test_conditional_assertion_is_found():
    conditional = "def test_x():\n    if y:\n        assert z\n"
    assert list(find_conditional(ast.parse(conditional))) == ["test_x"]
    assert list(find_conditional(ast.parse(conditional + "    else:\n        assert not z\n"))) == []
    assert list(find_conditional(ast.parse("def test_x():\n    assert z if y else not z\n"))) == []


def test_test_that_may_assert_nothing_is_found():
    loop = "def test_x(given):\n    known = 1, 2\n    for each in {}:\n        assert each\n"
    for source in ("find()", "(*find(),)", "[]", "''", "found", "find().items()", "[each for each in given]"):
        assert list(find_vacuous(ast.parse(loop.format(source)), set())) == ["test_x"], source
    for source in ("given", "known", "(1, *find())", "CASES", "module.CASES", "range(3)", "CASES.items()", "CASES[1:]"):
        assert list(find_vacuous(ast.parse(loop.format(source)), set())) == [], source
    assert list(find_vacuous(ast.parse(loop.format("find()") + "    assert known\n"), set())) == []
    assert list(find_vacuous(ast.parse("def test_x():\n    run()\n"), set())) == ["test_x"]
    assert list(find_vacuous(ast.parse("def test_x():\n    run()\n"), {"run"})) == []
