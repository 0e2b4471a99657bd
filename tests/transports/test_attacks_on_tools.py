"""The attack cases against single tools: isolation of users and agents, the path gate, grep and argument limits."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.transports.attacks import LISTS, attack
from tests.transports.server import HTTP, serving
from tests.transports.team import TODO_TOOLS, TRANSPORTS, Team

FILE_BYTES = 1024 * 1024
"""The contract's limit for one file."""


# Isolation


def is_rejected(transport: str, team: Team, who: str, tool: str, input: dict[str, Any]) -> tuple[bool, str]:
    """Call a tool and report whether it was rejected, with the whole text of the response."""
    reply = team.ask(transport, who, tool, input)
    rejected = reply.status >= 400 if reply.result is None else reply.result["isError"]
    return rejected, reply.response.text


def normalize(text: str, number: int) -> str:
    """Take out what may differ between two responses: the time and the task's id."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return re.sub(rf'(Task |"task(?:_id)?": ?){number}\b', r"\1ID", text)


@pytest.fixture(params=["sqlite", "postgres"])
def users(request: pytest.FixtureRequest) -> Team:
    """A team with a second user, on each engine."""
    team: Team = request.getfixturevalue("team" if request.param == "sqlite" else "postgres_team")
    if "user_b" not in team.tokens:
        team.tokens["user_b"] = team.server.user("user_b")
    return team


def add_todo(team: Team) -> int:
    """Add a todo of user_a and return its id."""
    return int(
        team.ask("execute", "user_a", "add_task", {"title": "Buy milk", "description": "2 l"}).data["task"]["id"]
    )


def read_todos(team: Team, user: str) -> Any:
    return team.ask("execute", user, "list_tasks").data["tasks"]


@attack("ISO-01")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("tool", ["complete_task", "update_task", "delete_task"])
def test_another_users_todo_looks_absent(users: Team, tool: str, transport: str):
    number, absent = add_todo(users), 987_654_321
    before = read_todos(users, "user_a")
    more = {"title": "Mine now"} if tool == "update_task" else {}
    foreign, foreign_text = is_rejected(transport, users, "user_b", tool, {"task_id": number, **more})
    missing, missing_text = is_rejected(transport, users, "user_b", tool, {"task_id": absent, **more})
    assert (foreign, missing) == (True, True)
    assert normalize(foreign_text, number) == normalize(missing_text, absent)
    assert read_todos(users, "user_a") == before


@attack("ISO-01")
def test_another_users_todo_looks_absent_on_the_command_line(users: Team):
    number, absent = add_todo(users), 987_654_321
    before = read_todos(users, "user_a")
    for command in ("done", "change", "delete"):
        more = ("--title", "Mine now") if command == "change" else ()
        foreign, missing = (
            users.server.run("todo", command, str(id), "--as", "user_b", *more) for id in (number, absent)
        )
        assert (foreign.returncode, foreign.stdout) == (missing.returncode, missing.stdout)
        assert foreign.returncode != 0
        assert normalize(foreign.stderr, number) == normalize(missing.stderr, absent)
    assert read_todos(users, "user_a") == before


@attack("ISO-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("tool", TODO_TOOLS)
def test_user_id_in_the_arguments_cannot_choose_the_user(users: Team, tool: str, transport: str):
    number, marker = add_todo(users), uuid.uuid4().hex
    before = read_todos(users, "user_a"), read_todos(users, "user_b")
    needed: dict[str, dict[str, Any]] = {"add_task": {"title": marker}, "list_tasks": {}}
    needed["update_task"] = {"task_id": number, "title": marker}
    input = {**needed.get(tool, {"task_id": number}), "user_id": "user_a"}
    rejected, text = is_rejected(transport, users, "user_b", tool, input)
    assert rejected
    assert "Buy milk" not in text
    assert (read_todos(users, "user_a"), read_todos(users, "user_b")) == before


@attack("ISO-03")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("tool", ["mcp__mail__read", "mcp__mail__reply"])
def test_another_agents_mail_is_denied_and_stays_unread(either_team: Team, tool: str, transport: str):
    # An agent of its own: an unread mail adds a notice to every later response of its recipient.
    recipient = f"recipient_{uuid.uuid4().hex[:12]}"
    either_team.tokens[recipient] = either_team.server.agent(recipient)
    canary = uuid.uuid4().hex
    mail = {"toAgentId": recipient, "subject": "For you", "body": canary}
    id = either_team.ask("execute", "supervisor", "mcp__mail__send", mail).data["mailId"]
    input = {"mailId": id} if tool == "mcp__mail__read" else {"originalMailId": id, "body": "Thanks"}
    reply = either_team.ask(transport, "worker_b", tool, input)
    assert reply.code == "PERMISSION_DENIED"
    assert canary not in reply.response.text
    server = either_team.server
    assert server.count("decision", f"subject = 'agent:worker_b' AND (context LIKE '%{canary}%')") == 0
    [unread] = either_team.ask("execute", recipient, "mcp__mail__list_inbox").data["mails"]
    assert (unread["id"], unread["isRead"]) == (id, False)
    sent = either_team.ask("execute", "supervisor", "mcp__mail__list_inbox", {"includeRead": True}).data["mails"]
    assert [one for one in sent if one["body"] == "Thanks"] == []


# Argument limits

EMOJI = "🧵"
TITLE = "Title must be between 1 and 200 characters"
DESCRIPTION = "Description must be 1000 characters or less"
TODO_EDGES: list[tuple[dict[str, str], str | None]] = [
    ({"title": ""}, TITLE),
    ({"title": EMOJI}, None),
    ({"title": EMOJI * 200}, None),
    ({"title": EMOJI * 201}, TITLE),
    ({"title": "t", "description": EMOJI * 1000}, None),
    ({"title": "t", "description": EMOJI * 1001}, DESCRIPTION),
]


@attack("VAL-01")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("input", "error"), TODO_EDGES)
def test_todo_limits_count_characters(users: Team, transport: str, input: dict[str, str], error: str | None):
    count = len(read_todos(users, "user_b"))
    rejected, text = is_rejected(transport, users, "user_b", "add_task", input)
    assert rejected == (error is not None)
    assert (error or "") in text
    assert len(read_todos(users, "user_b")) == count + (error is None)


@attack("VAL-01")
def test_todo_limits_count_characters_on_the_command_line(team: Team):
    for input, error in TODO_EDGES:
        description = ("--description", input["description"]) if "description" in input else ()
        result = team.server.run("todo", "add", input["title"], *description, "--as", "user_a")
        assert (result.returncode == 0) == (error is None), result.stderr


@attack("VAL-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("address", "code"),
    [
        ({}, "INVALID_INPUT"),
        ({"toAgentId": "worker_b", "toHuman": True}, "INVALID_INPUT"),
        ({"toHuman": False}, "INVALID_INPUT"),
        ({"toAgentId": ""}, "INVALID_INPUT"),
        ({"toAgentId": "ghost"}, "AGENT_NOT_FOUND"),
    ],
    ids=str,
)
def test_mail_needs_exactly_one_known_address(either_team: Team, transport: str, address: dict[str, Any], code: str):
    mails = either_team.server.count("mail")
    input = {"subject": "s", "body": "b", **address}
    assert either_team.ask(transport, "worker_a", "mcp__mail__send", input).code == code
    assert either_team.server.count("mail") == mails


# Files


@dataclass
class Canaries:
    """Secrets that no response may contain, each in a file that no tool may read."""

    secrets: dict[str, str] = field(default_factory=dict)

    def plant(self, path: Path, prefix: str = "CANARY") -> None:
        """Write a file whose only line is a secret."""
        self.secrets[str(path)] = f"{uuid.uuid4().hex}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{prefix}-{self.secrets[str(path)]}\n")

    def find_leaks(self, text: str) -> list[str]:
        return [path for path, secret in self.secrets.items() if secret in text]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, Path, Canaries]]:
    """A server whose project has readable files and canaries in the others."""
    root = tmp_path_factory.mktemp("attacked") / "project"
    canaries = Canaries()
    for path in LISTS["allow_paths"]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"content of {path}\n")
    (root / ".gitignore").write_text("content of .gitignore\nlog\n")  # the server's own log has the patterns
    for path in (".env", ".env.local", ".git/config"):
        canaries.plant(root / path, "CANARY-ENV")
    for path in ("node_modules/pkg/index.js", "../outside.txt", "../project-old/secret.txt"):
        canaries.plant(root / path)
    (root / "link-out.txt").symlink_to("../outside.txt")
    for name, size in {"size-m1.txt": FILE_BYTES - 1, "size-0.txt": FILE_BYTES, "size-p1.txt": FILE_BYTES + 1}.items():
        (root / name).write_text("x" * size)
    (root / "marker.sh").write_text("#!/bin/sh\ntouch rg-marker-ran\n")
    (root / "marker.sh").chmod(0o755)
    (root / "redos.txt").write_text("a" * 50_000 + "!\n")
    limits = {"read_file": 0, "grep_codebase": 0}
    with serving(root, embeddings="off", rate_limits=limits) as server:
        yield Team(server, {"worker_a": server.agent("worker_a")}), root, canaries


Project = tuple[Team, Path, Canaries]


@attack("PTH-01")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("path", LISTS["deny_paths"])
def test_forbidden_path_is_not_read(project: Project, path: str, transport: str):
    team, _, canaries = project
    rejected, text = is_rejected(transport, team, "worker_a", "read_file", {"path": path})
    assert rejected
    assert "root:" not in text
    assert canaries.find_leaks(text) == []


@attack("PTH-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("path", LISTS["allow_paths"])
def test_path_that_only_looks_forbidden_is_read(project: Project, path: str, transport: str):
    rejected, text = is_rejected(transport, project[0], "worker_a", "read_file", {"path": path})
    assert not rejected
    assert f"content of {path}" in text


@attack("PTH-03")
@attack("PTH-04")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("path", ["link-out.txt", "../project-old/secret.txt"])
def test_links_and_sibling_folders_do_not_lead_out_of_the_root(project: Project, path: str, transport: str):
    team, _, canaries = project
    rejected, text = is_rejected(transport, team, "worker_a", "read_file", {"path": path})
    assert rejected
    assert canaries.find_leaks(text) == []


@attack("PTH-05")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("path", "rejected"), [("size-m1.txt", False), ("size-0.txt", False), ("size-p1.txt", True)])
def test_file_size_limit_is_exact(project: Project, path: str, rejected: bool, transport: str):
    for input in ({"path": path}, {"path": path, "endLine": 1}):  # a line named by its number is returned whole
        found, text = is_rejected(transport, project[0], "worker_a", "read_file", input)
        assert found == rejected
    assert (len(text) < FILE_BYTES) == rejected


@attack("GRP-01")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_pattern_that_looks_like_an_option_is_text(project: Project, transport: str):
    team, root, _ = project
    rejected, _ = is_rejected(transport, team, "worker_a", "grep_codebase", {"pattern": "--pre=./marker.sh"})
    assert not rejected
    assert [path for path in (root, Path.cwd()) if (path / "rg-marker-ran").exists()] == []


@attack("GRP-02")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_catastrophic_pattern_does_not_block_the_server(project: Project, transport: str):
    team, _, _ = project
    ended, waits = threading.Event(), []

    def probe() -> None:
        while not ended.is_set():
            began = time.monotonic()
            assert HTTP.get(f"{team.server.url}/healthz").status_code == 200
            waits.append(time.monotonic() - began)

    prober = threading.Thread(target=probe)
    prober.start()
    began = time.monotonic()
    is_rejected(transport, team, "worker_a", "grep_codebase", {"pattern": "(a+)+$"})
    took = time.monotonic() - began
    ended.set()
    prober.join()
    assert took < 3.5
    assert max(waits) < 1


@attack("GRP-03")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_invalid_pattern_is_rejected_and_named(project: Project, transport: str):
    team, _, _ = project
    rejected, text = is_rejected(transport, team, "worker_a", "grep_codebase", {"pattern": "[invalid("})
    assert rejected
    assert "Invalid regex pattern" in text
    assert "[invalid(" in text
    assert "INTERNAL_ERROR" not in text
    assert team.server.count("escalation") == 0


@attack("GRP-04")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_grep_does_not_read_files_that_read_file_rejects(project: Project, transport: str):
    team, _, canaries = project
    reply = team.ask(transport, "worker_a", "grep_codebase", {"pattern": "CANARY-ENV"})
    found = reply.data if transport == "execute" else json.loads(reply.result["content"][0]["text"])  # type: ignore[index]
    assert found["totalMatches"] == 0
    assert canaries.find_leaks(reply.response.text) == []
