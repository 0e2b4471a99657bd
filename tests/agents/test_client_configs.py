"""Clients from npm read the config that `shopfloor connect` writes, and connect with it.

`make test-agents` installs them. Each is asked for its own list of MCP servers, in a new home folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.transports.server import serving, wait_until

STUB_MODEL = Path(__file__).parent / "model.py"
PROGRAMS = Path(__file__).parent / "node_modules" / ".bin"
PATIENCE_SECONDS = 300.0

CONNECTED = {
    "claude": r"shopfloor: .* - . Connected",
    "opencode": r"shopfloor .*connected",
    "gemini": r"shopfloor: .* - Connected",
    "qwen": r"shopfloor: .* - Connected",
}
"""What a client that connects to its servers prints. Codex only reads its config."""

pytestmark = pytest.mark.agents


class Machine:
    """A user's machine: an empty home folder, a project, Shopfloor and the clients."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{PROGRAMS}:{os.defpath}",
            "HOME": str(folder / "home"),
            "TERM": "dumb",
            # Gemini CLI starts no server in a folder that its user has not trusted.
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
        (folder / "home").mkdir()

    def run(self, *command: str) -> str:
        """Run a program and return what it prints, without colours."""
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


@pytest.fixture(params=["stdio", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    transport: str = request.param
    return transport


@pytest.fixture
def machine(tmp_path: Path, transport: str) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    with ExitStack() as stack:
        if transport == "http":
            stack.enter_context(serving(machine.project))
        yield machine


@pytest.mark.parametrize("client", CONNECTED)
def test_client_connects_with_its_config(machine: Machine, client: str, transport: str):
    machine.run("shopfloor", "connect", client, "--transport", transport)
    assert re.search(CONNECTED[client], machine.run(client, "mcp", "list"))
    machine.run("shopfloor", "connect", client, "--remove")
    assert not re.search(CONNECTED[client], machine.run(client, "mcp", "list"))


def test_goose_gives_the_tools_to_its_model(machine: Machine, transport: str, tmp_path: Path):
    """goose lists no servers, so that it is asked something: its model is a stub, which prints what it gets."""
    port, requests = tmp_path / "port", tmp_path / "requests"
    with requests.open("w") as log:
        stub = subprocess.Popen([sys.executable, str(STUB_MODEL), str(port)], stdout=log)
    try:
        wait_until(lambda: port.exists() and port.read_text() != "")
        machine.environment |= {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "gpt-4o",
            "GOOSE_DISABLE_KEYRING": "1",
            "OPENAI_HOST": f"http://127.0.0.1:{port.read_text().strip()}",
            "OPENAI_API_KEY": "none",
        }
        machine.run("shopfloor", "connect", "goose", "--transport", transport)
        machine.run("goose", "run", "--no-session", "--text", "hello")
    finally:
        stub.kill()
        stub.wait()
    tools = set(re.findall(r"shopfloor__(\w+)", requests.read_text()))
    assert {"mcp__task__claim", "mcp__mail__ask", "context_search"} <= tools


def test_codex_reads_its_config(machine: Machine, transport: str):
    machine.run("shopfloor", "connect", "codex", "--transport", transport)
    [row] = [line for line in machine.run("codex", "mcp", "list").splitlines() if line.startswith("shopfloor ")]
    assert "enabled" in row.split()
    assert ("stdio --project" in row) == (transport == "stdio")
    assert row.rstrip().endswith("Bearer token") == (transport == "http")
    machine.run("shopfloor", "connect", "codex", "--remove")
    assert "No MCP servers configured" in machine.run("codex", "mcp", "list")
