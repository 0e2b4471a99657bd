"""The config of every client after connecting, compared with golden files.

`python -m tests.connect.test_golden` writes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shopfloor.connect import config_files
from shopfloor.connect.clients import CLIENTS, SERVER_NAME, Client, Scope

HERE = Path(__file__).resolve().parent
URL = "http://127.0.0.1:3001/mcp"
TOKEN = "sfa_abcdefgh2345_" + "x" * 43
COMMAND = ["/venv/bin/shopfloor", "stdio", "--project", "/project", "--as", "worker-1"]


def list_cases() -> Iterator[tuple[str, Client, Scope, dict]]:
    """Yield every client with every scope and transport: the name of the golden file, and the entry."""
    for client in CLIENTS.values():
        for scope in client.locations:
            is_reference = scope == "project" and client.reference is not None
            http = client.build_http(URL, None if is_reference else TOKEN)
            yield f"{client.name}-{scope}-http.{client.format}", client, scope, http
            yield f"{client.name}-{scope}-stdio.{client.format}", client, scope, client.build_stdio(COMMAND)


CASES = list(list_cases())

REMOVED: dict[str, Callable[[str], str]] = {
    "opencode": lambda text: text.replace("*/\n    },\n", "*/\n    }\n"),
    "zed": lambda text: text.replace("true, //", "true //"),
    "qwen": lambda text: text.replace(', "mcpServers": {}', ""),
}


def read_existing(client: Client) -> str:
    return (HERE / "existing" / f"{client.name}.{client.format}").read_text("utf-8")


def get_keys(client: Client, scope: Scope) -> tuple[str, ...]:
    return (*(key.replace("{project}", "/project") for key in client.locations[scope].keys), SERVER_NAME)


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_entry_is_added_to_an_existing_config(case):
    name, client, scope, entry = case
    changed = config_files.set_member(read_existing(client), client.format, get_keys(client, scope), entry)
    assert changed == (HERE / "golden" / name).read_text("utf-8")


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_removing_the_entry_restores_the_config(case):
    name, client, scope, _ = case
    golden, existing = (HERE / "golden" / name).read_text("utf-8"), read_existing(client)
    removed = config_files.remove_member(golden, client.format, get_keys(client, scope))
    # A comma behind the last member and a table that was empty before are not restored.
    assert removed == REMOVED.get(client.name, lambda text: text)(existing)


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_setting_an_entry_again_changes_nothing(case):
    name, client, scope, entry = case
    golden = (HERE / "golden" / name).read_text("utf-8")
    assert config_files.set_member(golden, client.format, get_keys(client, scope), entry) == golden


def test_no_golden_file_is_unused():
    assert {path.name for path in (HERE / "golden").iterdir()} == {case[0] for case in CASES}
    assert {path.stem for path in (HERE / "existing").iterdir()} == set(CLIENTS)


def test_token_is_not_in_a_config_of_a_project_unless_the_client_has_no_references():
    with_token = {name for name, client, scope, entry in CASES if scope == "project" and TOKEN in str(entry)}
    assert with_token == {"zed-project-http.json"}


if __name__ == "__main__":
    (HERE / "golden").mkdir(exist_ok=True)
    for name, client, scope, entry in CASES:
        text = config_files.set_member(read_existing(client), client.format, get_keys(client, scope), entry)
        (HERE / "golden" / name).write_text(text, "utf-8")
