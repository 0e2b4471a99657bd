"""The rules for how the todo tools are written."""

from __future__ import annotations

import ast
import inspect

import pytest

from shopfloor.toolsets import todo, todo_direct

TOOLSETS = [todo, todo_direct]


@pytest.mark.parametrize("package", TOOLSETS)
def test_tools_call_use_cases_only(package):
    tree = ast.parse(inspect.getsource(package.tasks))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name and name.startswith("shopfloor.repositories")} == {
        "shopfloor.repositories.uow"
    }
    tools = {tool.run.__name__ for tool in package.toolset.tools.values()}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in tools]
    assert {function.name for function in functions} == tools
    for function in functions:
        used = [
            node for node in ast.walk(function) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        ]
        assert [node.attr for node in used if node.value.id == "work"] == []  # type: ignore[attr-defined]
        assert [node.attr for node in used if node.value.id == "todos"], function.name  # type: ignore[attr-defined]


@pytest.mark.parametrize("package", TOOLSETS)
def test_no_module_of_the_tools_has_state(package):
    for module in (package.tasks, package.contract):
        tree = ast.parse(inspect.getsource(module))
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal)]
        names = [target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]  # type: ignore[attr-defined]
        stored = {
            node.value.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)
        }
        assert stored.isdisjoint(names)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"title": 2**70}, "Title must be between 1 and 200 characters"),
        ({"title": "t", "more": 2**70}, "Integers must fit into 64 bits"),
        ({"title": "a\0b"}, "Text must not contain the NUL character (\\u0000)"),
    ],
)
def test_text_that_cannot_be_stored_is_rejected_by_argument(shopfloor, given, error):
    assert shopfloor.call("todo", "add_task", given)["error"] == error
