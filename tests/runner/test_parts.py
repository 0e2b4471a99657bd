"""The parts of the runner, each on its own."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.runs import Run, RunState, Wanted
from shopfloor.errors import BadSettings, ClientError, FileNotFound, FileTooLarge, GitFailed, NotAFile
from shopfloor.runner import permissions, processes, prompt, verification
from shopfloor.runner.acp import LineTransport, McpServerRef, PermissionRequest
from shopfloor.runner.budgets import Stopwatch, Usage, find_exhausted
from shopfloor.runner.git import run_git
from shopfloor.runner.live_view import LiveView
from shopfloor.runner.options import RunOptions, read_options
from shopfloor.runner.view import JsonLines
from shopfloor.serving import Shopfloor
from shopfloor.settings import PermissionRule, Settings
from shopfloor.toolkit import Credential
from shopfloor.usecases import runs
from tests.operator_access import write_as_operator
from tests.runner.support import PATIENCE, wait_until

anyio = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# Processes


@anyio
async def test_command_is_run_without_a_shell(tmp_path: Path):
    outcome = await processes.run_command(
        [sys.executable, "-c", "import sys; print(sys.argv[1])", "$HOME; id"], tmp_path, seconds=PATIENCE
    )
    assert (outcome.code, outcome.output) == (0, "$HOME; id")


@anyio
async def test_command_over_its_time_limit_is_killed_with_its_children(tmp_path: Path):
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(1000)'])"
    began = time.monotonic()
    outcome = await processes.run_command([sys.executable, "-c", script], tmp_path, seconds=0.5)
    assert (outcome.code, outcome.failure.endswith("took too long")) == (None, True)
    assert time.monotonic() - began < PATIENCE


@anyio
async def test_command_without_a_reaper_is_killed_after_its_time_limit(tmp_path: Path):
    outcome = await processes.run_command(["sleep", "1000"], tmp_path, seconds=0.5, reaped=False)
    assert (outcome.code, outcome.raw_output) == (None, b"")


@anyio
async def test_a_reaper_ends_the_orphans_of_a_command_that_has_ended(tmp_path: Path):
    script = "import os, subprocess; print(subprocess.Popen(['sleep', '1000'], stdout=2, start_new_session=True).pid)"
    outcome = await processes.run_command([sys.executable, "-c", script], tmp_path, seconds=PATIENCE)
    assert outcome.code == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(outcome.output), 0)


@pytest.mark.parametrize("words", [("rev-parse", "HEAD"), ("commit", "--quiet")])
@anyio
async def test_git_in_a_folder_that_is_gone_says_so(words: tuple[str, ...], tmp_path: Path):
    with pytest.raises(GitFailed, match=f"git {words[0]}: No such file or directory"):
        await run_git(tmp_path / "gone", words)


@anyio
async def test_a_reaper_ends_everything_when_the_runner_is_gone(tmp_path: Path):
    marker = tmp_path / "pid"
    script = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    child = await processes.start_process([sys.executable, "-c", script], tmp_path, grace=1)
    await asyncio.to_thread(wait_until, lambda: marker.exists() and marker.read_text())
    child.release()
    assert await child.wait() == 128 + 15
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


@anyio
async def test_one_server_forks_all_reapers_and_a_killed_one_is_replaced(tmp_path: Path):
    # The parent of a command is its reaper, whose parent is the server.
    parents = """
import os, pathlib
print(pathlib.Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
"""
    command = [sys.executable, "-c", parents]
    servers = [(await processes.run_command(command, tmp_path, seconds=PATIENCE)).output for _ in range(2)]
    assert servers[0] == servers[1]
    child = await processes.start_process(["sh", "-c", "echo started; exec sleep 1000"], tmp_path, grace=1)
    assert child.process.stdout is not None
    assert await child.process.stdout.readline() == b"started\n"
    os.kill(int(servers[0]), signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: not _is_alive(int(servers[0])))
    replaced = (await processes.run_command(command, tmp_path, seconds=PATIENCE)).output
    assert replaced != servers[0]
    # A reaper does not need the server that has forked it.
    child.release()
    assert await child.wait() == 128 + signal.SIGTERM


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@anyio
async def test_a_command_that_does_not_exist_says_so(tmp_path: Path):
    outcome = await processes.run_command(["no-such-program"], tmp_path, seconds=PATIENCE)
    assert (outcome.code, outcome.output) == (127, "no-such-program: No such file or directory")


@pytest.mark.parametrize("reaped", [True, False])
@anyio
async def test_settings_of_the_server_are_not_inherited(reaped: bool, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SHOPFLOOR_DATABASE", "postgresql://secret")
    outcome = await processes.run_command(
        [sys.executable, "-c", "import os; print(sorted(os.environ))"], tmp_path, seconds=PATIENCE, reaped=reaped
    )
    assert outcome.code == 0
    assert "SHOPFLOOR_DATABASE" not in outcome.output


@anyio
async def test_verification_stops_at_the_first_failure(tmp_path: Path):
    good, bad = [sys.executable, "-c", ""], [sys.executable, "-c", "print('oh no'); raise SystemExit(4)"]
    seen: list[processes.CommandResult] = []
    failing = await verification.find_failing_command([good, bad, good], tmp_path, PATIENCE, seen.append)
    assert failing is not None
    assert (failing.code, len(seen)) == (4, 2)
    assert verification.explain_failure(failing).endswith("exit code 4\nThe end of its output:\noh no")
    assert await verification.find_failing_command([good, good], tmp_path, PATIENCE) is None


# Lines


@anyio
async def test_lines_are_joined_and_updates_go_to_the_host():
    reader, news = asyncio.StreamReader(), []
    lines = LineTransport(reader, None, lambda session, update: news.append((session, update)))  # type: ignore[arg-type]
    big = "z" * 3_000_000
    update = {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "x", "t": big}}}
    reader.feed_data(b"rubbish\n" + json.dumps(update).encode() + b'\n{"id": 1, ')
    reader.feed_data(b'"result": 2}\n[]\n')
    reader.feed_eof()
    assert await lines.receive() == {"id": 1, "result": 2}
    assert await lines.receive() is None
    assert [(session, len(update["t"])) for session, update in news] == [("s", 3_000_000)]
    assert lines.invalid_lines == 2


def test_headers_are_a_list_also_when_there_are_none():
    assert McpServerRef("http://x/mcp", None).to_acp().model_dump(by_alias=True)["headers"] == []
    assert McpServerRef("http://x/mcp", "t").to_acp().headers[0].value == "Bearer t"


# Files


class Gate:
    """The files of a project, as the agent of a run reaches them."""

    def __init__(self, shopfloor: Shopfloor) -> None:
        self.engine = shopfloor.engine
        write_as_operator(shopfloor, lambda uow: runs.create_run(uow, "r", spec="", project="", options="{}"))

    def read_file(self, path: str) -> str:
        return str(self._call("file_read", path=path)["text"])

    def write_file(self, path: str, text: str) -> None:
        self._call("file_write", path=path, text=text, permitted=True)

    def _call(self, tool: str, **arguments: Any) -> Any:
        credential = Credential(trusted=Principal(Kind.RUNNER, "r"))
        result = self.engine.call(self.engine.new_request("run", tool, {"fence": 0, **arguments}, credential, "test"))
        if result.error is not None:
            raise result.error
        return result.body


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    shopfloor = Shopfloor(Settings(project=tmp_path))
    yield Gate(shopfloor)
    shopfloor.close()


def test_the_path_gate_allows_files_of_the_project(tmp_path: Path, gate: Gate):
    gate.write_file("a/b/c.txt", "text\n")
    assert gate.read_file(str(tmp_path / "a/b/c.txt")) == "text\n"
    (tmp_path / "inner").symlink_to(tmp_path / "a")
    assert gate.read_file("inner/b/c.txt") == "text\n"
    gate.write_file(str(tmp_path / "inner/b/c.txt"), "new\n")
    assert gate.read_file("a/b/c.txt") == "new\n"
    for readable in (".gitignore", ".github/x.yml", ".env.example", "environment.py", "my.git.txt"):
        gate.write_file(readable, "x")
        assert gate.read_file(readable) == "x"


@pytest.mark.parametrize(
    "path",
    [
        "../x", "a/../../x", "/etc/passwd", "", ".", ".env", ".ENV", "a/.env.local", ".git/config", "A/.GIT/config",
        "node_modules/x", ".shopfloor/shopfloor.db", "key.pem", "id_rsa", "deep/.npmrc", "out", "out/x", "loop",
        "secret", "store/x", "nul\0", "folder",
    ],
)  # fmt: skip
def test_the_path_gate_rejects_every_other_path(tmp_path: Path, gate: Gate, path: str):
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "secret").symlink_to(".env")
    (tmp_path / "store").symlink_to(".shopfloor")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for named in (path, str(tmp_path / path) if path and not path.startswith("/") else path):
        for operation in (gate.read_file, lambda path: gate.write_file(path, "x")):
            with pytest.raises(ClientError):
                operation(named)
    assert sorted(tmp_path.rglob("*")) == before
    assert not (tmp_path.parent / "x").exists()


def test_a_file_is_replaced_atomically_and_keeps_its_mode(tmp_path: Path, gate: Gate):
    script = tmp_path / "script"
    script.write_text("old")
    script.chmod(0o751)
    before = script.stat().st_ino
    gate.write_file("script", "new")
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o751)
    assert script.stat().st_ino != before
    assert list(tmp_path.glob(".*.part")) == []


def test_folder_swapped_for_a_link_never_leads_outside(tmp_path: Path, gate: Gate):
    """Write while a thread swaps a folder for a link to outside: each write is below the root or rejected."""
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    stop = threading.Event()

    def swap() -> None:
        spot = tmp_path / "spot"
        while not stop.is_set():
            spot.mkdir(exist_ok=True)
            shutil.rmtree(spot, ignore_errors=True)
            with contextlib.suppress(OSError):
                spot.symlink_to(outside)
                spot.unlink()

    swapping = threading.Thread(target=swap)
    swapping.start()
    files = gate.engine.database.gateways.files  # without a log row each: the race needs many attempts
    for _ in range(500):
        with contextlib.suppress(ClientError):
            files.write("spot/x", b"x")
    stop.set()
    swapping.join()
    assert list(outside.iterdir()) == []


def test_only_regular_files_below_the_size_limit_are_used(tmp_path: Path, gate: Gate):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 1_048_577)
    for path, error in (("pipe", NotAFile), ("large", FileTooLarge), ("missing", FileNotFound)):
        with pytest.raises(error):
            gate.read_file(path)
    with pytest.raises(NotAFile):
        gate.write_file("pipe", "x")
    with pytest.raises(FileTooLarge):
        gate.write_file("big", "x" * 1_048_577)


# Permissions


def new_permission_request(
    kind: str = "edit", title: str = "t", *paths: str, options: tuple[tuple[str, str], ...] = ()
) -> PermissionRequest:
    return PermissionRequest(kind, title, paths, options)


def test_an_option_is_chosen_by_its_kind():
    offered = (("9", "reject_once"), ("3", "allow_always"), ("5", "allow_once"))
    assert [
        permissions.choose_option(new_permission_request(options=offered), answer)
        for answer in ("allow", "always", "deny")
    ] == [
        "5",
        "3",
        "9",
    ]
    assert permissions.choose_option(new_permission_request(options=(("3", "allow_always"),)), "allow") == "3"
    assert permissions.choose_option(new_permission_request(options=(("3", "allow_always"),)), "deny") is None


@pytest.mark.parametrize(
    ("kind", "title", "own"),
    [
        ("other", "shopfloor_task-add", True), ("other", "mcp__shopfloor__task-list", True),
        ("other", "task-add (shopfloor MCP Server)", True), ("other", "mcp__shopfloor__mcp__mail__list_inbox", True),
        ("read", "shopfloor_read_file", True), ("other", "mcp__other__mcp__mail__send", False), ("execute", "shopfloor_task-add", False),
        ("other", "shopfloor_task-add; rm -rf /", False), ("other", "rm -rf /", False), ("edit", "shopfloor_task-add", False),
    ],
)  # fmt: skip
def test_the_runs_own_tools_need_no_permission(kind: str, title: str, own: bool):
    assert permissions.is_own_tool(new_permission_request(kind, title)) is own


def test_rules_go_by_kind_and_path(tmp_path: Path):
    rules = [
        PermissionRule(kind="edit", path="src/*", answer="allow"),
        PermissionRule(kind="execute", answer="ask"),
        PermissionRule(kind="read", answer="deny"),
    ]

    def answer(*given: str) -> str | None:
        rule = permissions.find_rule(new_permission_request(given[0], "t", *given[1:]), rules, tmp_path)
        return None if rule is None else rule.answer

    assert answer("edit", str(tmp_path / "src/a.py")) == "allow"
    assert answer("edit", "src/a.py", "src/b/c.py") == "allow"
    assert answer("edit", "src/../setup.py") is None
    assert answer("edit", "src/a.py", "/etc/passwd") is None
    assert answer("edit") is None
    assert (answer("execute"), answer("read"), answer("delete")) == ("ask", "deny", None)


# Prompt, options, budgets


def test_values_in_the_prompt_are_not_expanded():
    filled = prompt.fill_template("{{spec}} {{ notes }}", {"spec": "see {{notes}}", "notes": "N"})
    assert filled == "see {{notes}} N"


def test_a_template_with_an_unknown_variable_is_rejected(tmp_path: Path):
    (tmp_path / "t.md").write_text("{{spec}} {{secret}}")
    with pytest.raises(BadSettings, match="secret"):
        prompt.load_template(tmp_path / "t.md")
    assert all(f"{{{{{name}}}}}" in prompt.load_template(None) for name in prompt.VARIABLES)


def test_options_come_from_the_command_line_before_the_config_file():
    options = read_options({"iterations": 9, "verify": ["make test"], "time": "2h"}, {"iterations": 3})
    assert (options.iterations, options.verify, options.time) == (3, (("make", "test"),), 7200)
    assert read_options(options.model_dump(), {}) == RunOptions.model_validate_json(options.model_dump_json())


@pytest.mark.parametrize(
    "given",
    [{"time": "soon"}, {"agent": "'x"}, {"agent": " "}, {"iterations": 0}, {"permissions": "perhaps"}, {"colour": 1}],
)
def test_bad_options_are_named(given: dict[str, object]):
    with pytest.raises(BadSettings, match=next(iter(given))):
        read_options({}, given)


def test_usage_grows_and_ignores_values_that_are_not_numbers_of_tokens():
    usage = Usage()
    for tokens, cost in [(5, None), (3, 0.5), ("9", "1"), (True, True), (None, -1), (-4, 0.1), (10**30, 10**30)]:
        usage.report_context(tokens, cost)
    assert (usage.tokens, usage.is_estimate, usage.cost) == (8, True, 500_000)
    for billed in (7, 6, "9", True, None, 10**30):
        usage.report_billed(billed)
    assert (usage.tokens, usage.is_estimate) == (7, False)


def test_each_budget_names_the_option_that_gives_more():
    run = Run(
        "r", RunState.ACTIVE, Wanted.GO, None, "", "", "", 0, None, None, 0, 0, None, 0, None, 10, 10, 0, 0, 0, None
    )
    for options, more in [
        (RunOptions(iterations=2), "--iterations 4"), (RunOptions(tokens=10), "--tokens 20"),
        (RunOptions(time=1), "--time 2s"), (RunOptions(cost=0.00001), "--cost 0.00"),
    ]:  # fmt: skip
        found = find_exhausted(run, options, 2, Usage(), 1.0)
        assert found is not None
        assert found.option == more
    assert find_exhausted(run, RunOptions(), 2, Usage(), 1.0) is None


def test_stopwatch_pauses_while_a_question_is_open():
    began = time.monotonic()
    watch = Stopwatch()
    with watch, watch:
        before = watch.seconds
        time.sleep(0.05)
        assert watch.seconds == before
    time.sleep(0.01)
    assert before < watch.seconds <= time.monotonic() - began - 0.05


def test_hooks_and_rules_are_settings(tmp_path: Path):
    (tmp_path / "shopfloor.toml").write_text(
        '[hooks]\npre_iteration = [{command = ["make", "lint"], seconds = 5}]\n[run]\npermissions = "allow"\n'
    )
    settings = Settings(project=tmp_path)
    assert settings.hooks["pre_iteration"][0].command == ("make", "lint")
    assert settings.run == {"permissions": "allow"}
    (tmp_path / "shopfloor.toml").write_text("[hooks]\nwhenever = []\n")
    with pytest.raises(BadSettings, match="hooks"):
        Settings(project=tmp_path)


# Views


def test_json_lines_omit_events_of_the_live_panel():
    stream = io.StringIO()
    view = JsonLines(stream)
    view.show("progress", budget="x")
    view.show("said", text="x")
    view.show("iteration_started", run="r", iteration=1)
    [line] = stream.getvalue().splitlines()
    assert json.loads(line) | {"at": ""} == {"at": "", "event": "iteration_started", "run": "r", "iteration": 1}


def test_the_live_view_shows_progress_and_takes_keys():
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    view = LiveView(console)
    view.show("iteration_started", run="r", iteration=4)
    view.show("progress", task="TAS-1 build it", budget="iteration 5/50")
    view.show("tool_call", title="write \x1b[31mfile", status="completed", kind="edit")
    view.show("permission_asked", number=7, question="May the agent edit?")
    console.print(view.build_panel())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("r · 0s · iteration 5/50", "TAS-1 build it", "question 7: May the agent edit?", "✓ write"):
        assert text in shown
    assert "\x1b" not in shown
    assert (view.find_answer("A"), view.find_answer("x")) == ((7, "allow"), None)
    view.show("permission_answered", number=7, answer="allow")
    assert view.find_answer("a") is None
