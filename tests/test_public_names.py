"""What host programs may rely on."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import shopfloor
from shopfloor import Settings, Shopfloor, errors
from shopfloor.errors import ShopfloorError


def test_the_package_has_two_names():
    assert shopfloor.__all__ == ["Settings", "Shopfloor"]
    with pytest.raises(AttributeError, match="module 'shopfloor' has no attribute 'Floor'"):
        _ = shopfloor.Floor


def test_a_floor_can_do_this():
    names = [name for name in vars(Shopfloor) if not name.startswith("_")]
    assert names == [
        *("close", "call", "answer", "acall", "index", "read_file", "write_file", "schemas"),
        *("hire", "agent", "agents", "retire", "crashed"),
        *("add_user", "set_password", "remove_user", "user", "users"),
        *("issue_token", "tokens", "revoke_token", "credential", "serving"),
    ]


@pytest.mark.parametrize("name", ["call", "acall"])
def test_a_call_takes_a_toolset_a_tool_an_input_and_a_caller(name):
    parameters = inspect.signature(getattr(Shopfloor, name)).parameters
    assert list(parameters) == ["self", "toolset", "tool", "input", "caller"]
    assert (parameters["input"].default, parameters["caller"].default) == (None, None)


def test_a_floor_is_opened_and_closed_as_printed(tmp_path):
    with Shopfloor(Settings(data=tmp_path / "data", project=tmp_path)) as floor:
        answer = floor.call("factory", "mcp__agent__get_status", {}, caller=None)
        schemas = floor.schemas("factory", for_model=False)
    assert (answer["success"], answer["data"]["id"]) == (True, "local")
    assert schemas[0]["name"] == "mcp__agent__get_status"
    assert set(schemas[0]) == {"name", "description", "parameters"}


def test_a_toolset_that_there_is_not_is_refused(tmp_path):
    with Shopfloor(Settings(project=tmp_path)) as floor:
        for wrong in (lambda: floor.call("nope", "x"), lambda: floor.schemas("nope")):
            with pytest.raises(errors.InvalidInput, match="There is no toolset 'nope'; there are factory"):
                wrong()


def tree(kind, depth=0):
    return [(depth, kind.__name__, kind.code)] + [
        line
        for child in kind.__subclasses__()
        if child.__module__ == "shopfloor.errors"
        for line in tree(child, depth + 1)
    ]


def test_the_failure_tree_is_the_one_drawn_at_the_top_of_its_module():
    drawn = []
    for line in (inspect.getdoc(errors) or "").splitlines()[2:]:
        if not line:
            break
        name = line.lstrip("├└│─ ").split()[0]
        drawn.append(((len(line) - len(line.lstrip("├└│─ "))) // 4, name))
    assert drawn == [(depth, name) for depth, name, _ in tree(ShopfloorError)]


def test_the_codes_are_those_of_the_contract_and_one_more():
    assert {code for _, _, code in tree(ShopfloorError)} == {
        *("PERMISSION_DENIED", "TOOL_NOT_FOUND", "INVALID_INPUT", "AGENT_NOT_FOUND", "RESOURCE_NOT_FOUND"),
        *("INVALID_AGENT_STATE", "INTERNAL_ERROR", "TRANSIENT_ERROR", "RATE_LIMITED"),
    }


@pytest.mark.parametrize("name", [name for _, name, _ in tree(ShopfloorError)])
def test_an_error_speaks_in_a_sentence_of_its_own(name):
    kind = getattr(errors, name)
    error = kind(tool="t", agent="a", seconds=5, found=2, known=1)
    assert error.message == str(error)
    assert error.message
    assert "{" not in error.message
    assert kind("In other words", hint="Do this").hint == "Do this"
    assert (error.refusal, error.transient) == (
        issubclass(kind, errors.Refused),
        issubclass(kind, errors.Unavailable) and kind is not errors.EmbeddingFailed,  # its gateway has tried again
    )


def test_the_package_is_typed():
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import shopfloor, pathlib; print((pathlib.Path(shopfloor.__file__).parent / 'py.typed').exists())",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout == "True\n"
