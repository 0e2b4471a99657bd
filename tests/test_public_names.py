"""The public API of the package."""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import shopfloor
from shopfloor import Settings, Shopfloor, errors
from shopfloor.cli.lazy_group import COMMANDS
from shopfloor.errors import ShopfloorError

ROOT = Path(__file__).resolve().parent.parent


def test_package_exports_two_names():
    assert shopfloor.__all__ == ["Settings", "Shopfloor"]
    with pytest.raises(AttributeError, match="module 'shopfloor' has no attribute 'Engine'"):
        _ = shopfloor.Engine


def test_public_methods_of_shopfloor():
    names = [name for name in vars(Shopfloor) if not name.startswith("_")]
    assert names == [
        *("close", "call", "answer", "acall", "refresh_index", "schemas"),
        *("create_agent", "get_agent", "list_agents", "retire_agent", "report_crash"),
        *("add_user", "list_users", "set_desk_role", "set_password", "remove_user"),
        *("issue_token", "list_tokens", "revoke_token", "create_link", "get_credential", "serving"),
    ]


@pytest.mark.parametrize("name", ["call", "acall"])
def test_call_takes_toolset_tool_input_and_caller(name):
    parameters = inspect.signature(getattr(Shopfloor, name)).parameters
    assert list(parameters) == ["self", "toolset", "tool", "input", "caller"]
    assert (parameters["input"].default, parameters["caller"].default) == (None, None)


def test_shopfloor_works_as_in_the_readme(tmp_path):
    with Shopfloor(Settings(data=tmp_path / "data", project=tmp_path)) as shopfloor:
        answer = shopfloor.call("factory", "mcp__agent__get_status", {}, caller=None)
        schemas = shopfloor.schemas("factory", for_model=False)
    assert (answer["success"], answer["data"]["id"]) == (True, "local")
    assert schemas[0]["name"] == "mcp__agent__get_status"
    assert set(schemas[0]) == {"name", "description", "parameters"}


def test_shopfloor_opens_inside_a_coroutine(tmp_path):
    async def use():
        async with Shopfloor(Settings(project=tmp_path)) as shopfloor:
            answer = await shopfloor.acall("factory", "mcp__agent__get_status")
            async with shopfloor.serving(port=0) as url:
                assert url.startswith("http://127.0.0.1:")
        return answer

    assert asyncio.run(use())["data"]["id"] == "local"
    # Closed in order: the project can be opened again, and everything was stored.
    with Shopfloor(Settings(project=tmp_path)) as shopfloor:
        assert shopfloor.call("factory", "mcp__agent__get_status")["success"]


def test_version_is_that_of_the_package():
    assert shopfloor.__version__ == importlib.metadata.version("shopfloor")


def test_unknown_toolset_is_rejected(tmp_path):
    with Shopfloor(Settings(project=tmp_path)) as shopfloor:
        for wrong in (lambda: shopfloor.call("nope", "x"), lambda: shopfloor.schemas("nope")):
            with pytest.raises(errors.InvalidInput, match="Unknown toolset 'nope'; expected one of factory"):
                wrong()


def tree(kind, depth=0):
    return [(depth, kind.__name__, kind.code)] + [
        line
        for child in kind.__subclasses__()
        if child.__module__ == "shopfloor.errors"
        for line in tree(child, depth + 1)
    ]


def test_error_tree_is_drawn_at_the_top_of_its_module():
    drawn = []
    for line in (inspect.getdoc(errors) or "").splitlines()[2:]:
        if not line:
            break
        name = line.lstrip("├└│─ ").split()[0]
        drawn.append(((len(line) - len(line.lstrip("├└│─ "))) // 4, name))
    assert drawn == [(depth, name) for depth, name, _ in tree(ShopfloorError)]


def test_error_codes_are_those_of_the_contract_and_rate_limited():
    assert {code for _, _, code in tree(ShopfloorError)} == {
        *("PERMISSION_DENIED", "TOOL_NOT_FOUND", "INVALID_INPUT", "AGENT_NOT_FOUND", "RESOURCE_NOT_FOUND"),
        *("INVALID_AGENT_STATE", "INTERNAL_ERROR", "TRANSIENT_ERROR", "RATE_LIMITED"),
    }


@pytest.mark.parametrize("name", [name for _, name, _ in tree(ShopfloorError)])
def test_every_error_has_a_default_message(name):
    kind = getattr(errors, name)
    error = kind(tool="t", agent="a", seconds=5, found=2, known=1, run="r", state="stopped")
    assert error.message == str(error)
    assert error.message
    assert "{" not in error.message
    assert kind("In other words", hint="Do this").hint == "Do this"
    assert (error.is_rejection, error.transient) == (
        issubclass(kind, errors.ClientError),
        # The gateway of embeddings has tried again itself; a disk that is full or broken stays so for longer than the retries take.
        issubclass(kind, errors.Unavailable)
        and kind not in (errors.EmbeddingFailed, errors.StoreFull, errors.StoreUnwritable),
    )


def test_package_is_typed():
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


def test_registry_entry_has_the_version_of_the_package():
    entry = json.loads((ROOT / "server.json").read_text())
    (package,) = entry["packages"]
    assert {entry["version"], package["version"]} == {shopfloor.__version__}
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text()
    assert package["packageArguments"][0]["value"] in COMMANDS
    assert {variable["name"] for variable in package["environmentVariables"]} <= {
        f"SHOPFLOOR_{name.upper()}" for name in Settings.model_fields
    }
