"""The first ten minutes of a new user: every command of the quickstart, with a scripted agent and a browser."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import sync_playwright

from shopfloor.cli.init import describe_next_steps
from tests.first_steps.shell import CHECKOUT, TIMEOUT_SECONDS, Shell, install_package, list_blocks

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


class ScriptedAgent:
    """Makes the calls of an agent, over the connection that the client's config describes."""

    def __init__(self, shell: Shell) -> None:
        config = json.loads((shell.home / ".claude.json").read_text())
        entry = config["projects"][str(shell.folder)]["mcpServers"]["shopfloor"]
        self._url = entry["url"]
        self._headers = {
            **entry["headers"],
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }
        self._numbers = itertools.count(1)

    def request(self, method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        response = httpx2.post(self._url, json=body, headers=self._headers, timeout=TIMEOUT_SECONDS)
        return response.json()["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        result = self.request("tools/call", name=tool, arguments=arguments)["structuredContent"]
        assert result["success"], result
        return result["data"]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    return Shell(tmp_path / "project", install_package(tmp_path), tmp_path / "home")


def look_at_page(link: str, text: str) -> list[str]:
    """Open a link in Chromium, wait for the text, and return what the console complains about."""
    program = next(path for name in BROWSERS if (path := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page()
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(link)
        page.get_by_text(text).first.wait_for(timeout=TIMEOUT_SECONDS * 1000)
        browser.close()
    return problems


def test_quickstart_leads_to_an_agent_that_works(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = dict(list_blocks("docs/quickstart.md"))
    assert list(blocks) == [
        "1. Install",
        "2. Set up your project",
        "3. Start the server",
        "4. Connect an agent",
        "5. Give it a job",
        "6. Watch and answer",
        "7. Accept the work",
    ]
    assert blocks["1. Install"] == ["make setup", 'export PATH="$PWD/.venv/bin:$PATH"']
    began = time.monotonic()
    for command in blocks["2. Set up your project"]:
        shell.run(command)
    (serve,) = blocks["3. Start the server"]
    with shell.serve(serve):
        assert "Claude Code gets 18 tools." in shell.run(*blocks["4. Connect an agent"])
        for command in blocks["5. Give it a job"]:
            shell.run(command)
        agent = ScriptedAgent(shell)
        assert "mcp__task__claim" in {tool["name"] for tool in agent.request("tools/list")["tools"]}
        task = agent.call("mcp__task__claim")["task"]
        assert (task["title"], task["description"]) == ("Fix the login page", "Passwords with a space are rejected.")
        useful = (shell.commands, time.monotonic() - began)

        answers: list[Any] = []
        question = {"body": "Keep or trim spaces at the end?", "options": ["Keep", "Trim"]}
        asking = threading.Thread(target=lambda: answers.append(agent.call("mcp__mail__ask", **question)))
        asking.start()
        status, inbox, answer = blocks["6. Watch and answer"]
        while "Keep or trim" not in shell.run(inbox):
            assert asking.is_alive()
        assert "claude" in shell.run(status)
        shell.run(answer)
        asking.join(TIMEOUT_SECONDS)
        assert (answers[0]["state"], answers[0]["answer"]) == ("ANSWERED", "Keep")

        agent.call("mcp__task__update_status", state="REVIEW", comment="Spaces are kept; 12 tests pass")
        show, done, log = blocks["7. Accept the work"]
        assert "Spaces are kept; 12 tests pass" in shell.run(show)
        assert shell.run(done) == "task-1 completed: Fix the login page\n"
        assert "task__update_status" in shell.run(log)
        link = shell.run("shopfloor link").split()[0]
        assert look_at_page(link, "Fix the login page") == []
    with capsys.disabled():
        print(f"\nfirst useful result after {useful[0]} commands and {useful[1]:.0f} s", end=" ")
    assert useful[0] <= 5


def test_commands_of_the_readme_work_as_printed(shell: Shell) -> None:
    demo, use, watch, post = (commands for _, commands in list_blocks("README.md"))
    assert demo == ["make demo"]
    shell.run(f"{demo[0].replace('make', 'shopfloor')} --seconds 2 --leave --folder {shell.home / 'demo'}")
    path, init, serve, *job = use
    for command in (path, init):
        shell.run(command)
    with shell.serve(serve) as url:
        answer = shell.run(post[0].replace("http://localhost:3001", url))
        assert json.loads(answer)["success"] is True
        for command in [*job, *watch]:
            shell.run(command)
    assert (shell.folder / "AGENTS.md").exists()


def test_first_steps_have_one_order_everywhere() -> None:
    readme = "\n".join(command for _, commands in list_blocks("README.md") for command in commands)
    quickstart = "\n".join(command for _, commands in list_blocks("docs/quickstart.md") for command in commands)
    steps = "\n".join(["shopfloor init", *describe_next_steps([])])
    home = (CHECKOUT / "src" / "shopfloor" / "web" / "templates" / "desk" / "home.html").read_text("utf-8")
    order = ["shopfloor init", "shopfloor serve", "shopfloor connect claude", "shopfloor task add"]
    for text, commands in ((readme, order), (quickstart, order), (steps, order), (home, order[2:])):
        places = [text.index(command) for command in commands]
        assert places == sorted(places), text


def test_commands_of_the_tutorial_work_as_printed(shell: Shell) -> None:
    blocks = list_blocks("docs/tutorial.md")
    printed = {}
    for command in (command for _, commands in blocks for command in commands):
        # A command that is printed twice is about what changed between the two.
        printed[f"{command} again" if command in printed else command] = shell.run(command)
    assert '"task": null' in printed["shopfloor call factory mcp__task__claim --as qa"]
    assert '"id": "task-2"' in printed["shopfloor call factory mcp__task__claim --as qa again"]
    assert "Keep" in printed['shopfloor call factory mcp__mail__ask \'{"ticket": "mail-1"}\' --as dev']
    assert "- [x] Test passwords with spaces" in printed["shopfloor export markdown"]
    assert "Keep spaces at the end" in printed["shopfloor log --limit 10"]
