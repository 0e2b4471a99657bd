"""The parts of the runner, each by itself."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from shopfloor.domain.loops import Run, RunState, Wanted
from shopfloor.errors import BadSettings, FileNotFound, FileTooLarge, NotAFile, Refused
from shopfloor.runner import permissions, processes, prompt, verification
from shopfloor.runner.acp import Door, Lines, PermissionAsked
from shopfloor.runner.budgets import Stopwatch, Usage, used_up
from shopfloor.runner.options import RunOptions, read_options
from shopfloor.runner.view import JsonLines, LiveView
from shopfloor.serving import Shopfloor
from shopfloor.settings import PermissionRule, Settings
from tests.loop.support import PATIENCE, until

anyio = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# Processes


@anyio
async def test_a_command_is_an_argument_vector_and_sees_no_shell(tmp_path: Path):
    outcome = await processes.run(
        [sys.executable, "-c", "import sys; print(sys.argv[1])", "$HOME; id"], tmp_path, seconds=PATIENCE
    )
    assert (outcome.code, outcome.said) == (0, "$HOME; id")


@anyio
async def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path):
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(1000)'])"
    began = time.monotonic()
    outcome = await processes.run([sys.executable, "-c", script], tmp_path, seconds=0.5)
    assert (outcome.code, outcome.failure.endswith("took too long")) == (None, True)
    assert time.monotonic() - began < PATIENCE


@anyio
async def test_a_keeper_whose_runner_is_gone_ends_everything(tmp_path: Path):
    marker = tmp_path / "pid"
    script = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    child = await processes.start([sys.executable, "-c", script], tmp_path, grace=1)
    await asyncio.to_thread(until, lambda: marker.exists() and marker.read_text())
    child.let_go()
    assert await child.wait() == 128 + 15
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


@anyio
async def test_settings_of_the_floor_are_not_inherited(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SHOPFLOOR_DATABASE", "postgresql://secret")
    outcome = await processes.run(
        [sys.executable, "-c", "import os; print(sorted(os.environ))"], tmp_path, seconds=PATIENCE
    )
    assert "SHOPFLOOR_DATABASE" not in outcome.said


@anyio
async def test_verification_stops_at_the_first_failure(tmp_path: Path):
    good, bad = [sys.executable, "-c", ""], [sys.executable, "-c", "print('oh no'); raise SystemExit(4)"]
    seen: list[processes.Outcome] = []
    failing = await verification.failing([good, bad, good], tmp_path, PATIENCE, seen.append)
    assert failing is not None
    assert (failing.code, len(seen)) == (4, 2)
    assert verification.explained(failing).endswith("exit code 4. The end of its output:\noh no")
    assert await verification.failing([good, good], tmp_path, PATIENCE) is None


# Lines


@anyio
async def test_lines_are_put_together_and_news_go_to_the_desk():
    reader, news = asyncio.StreamReader(), []
    lines = Lines(reader, None, lambda session, update: news.append((session, update)))  # type: ignore[arg-type]
    big = "z" * 3_000_000
    update = {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "x", "t": big}}}
    reader.feed_data(b"rubbish\n" + json.dumps(update).encode() + b'\n{"id": 1, ')
    reader.feed_data(b'"result": 2}\n[]\n')
    reader.feed_eof()
    assert await lines.receive() == {"id": 1, "result": 2}
    assert await lines.receive() is None
    assert [(session, len(update["t"])) for session, update in news] == [("s", 3_000_000)]
    assert lines.nonsense == 2


def test_headers_are_a_list_also_when_there_are_none():
    assert Door("http://x/mcp", None).server().model_dump(by_alias=True)["headers"] == []
    assert Door("http://x/mcp", "t").server().headers[0].value == "Bearer t"


# Files


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Shopfloor]:
    shopfloor = Shopfloor(Settings(project=tmp_path))
    yield shopfloor
    shopfloor.close()


def test_the_gate_opens_what_lies_in_the_project(tmp_path: Path, gate: Shopfloor):
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
def test_the_gate_is_shut_for_everything_else(tmp_path: Path, gate: Shopfloor, path: str):
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "secret").symlink_to(".env")
    (tmp_path / "store").symlink_to(".shopfloor")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for named in (path, str(tmp_path / path) if path and not path.startswith("/") else path):
        for deed in (gate.read_file, lambda path: gate.write_file(path, "x")):
            with pytest.raises(Refused):
                deed(named)
    assert sorted(tmp_path.rglob("*")) == before
    assert not (tmp_path.parent / "x").exists()


def test_a_file_is_replaced_whole_and_keeps_its_rights(tmp_path: Path, gate: Shopfloor):
    script = tmp_path / "script"
    script.write_text("old")
    script.chmod(0o751)
    before = script.stat().st_ino
    gate.write_file("script", "new")
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o751)
    assert script.stat().st_ino != before
    assert list(tmp_path.glob(".*.part")) == []


def test_a_folder_that_turns_into_a_link_leads_nowhere(tmp_path: Path, gate: Shopfloor):
    """While one thread swaps a folder for a link that leads out, writes land below the root or are refused."""
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
    for _ in range(500):
        with contextlib.suppress(Refused):
            gate.write_file("spot/x", "x")
    stop.set()
    swapping.join()
    assert list(outside.iterdir()) == []


def test_only_regular_files_of_a_modest_size_are_used(tmp_path: Path, gate: Shopfloor):
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


def asked(
    kind: str = "edit", title: str = "t", *paths: str, options: tuple[tuple[str, str], ...] = ()
) -> PermissionAsked:
    return PermissionAsked(kind, title, paths, options)


def test_an_option_is_chosen_by_its_kind():
    offered = (("9", "reject_once"), ("3", "allow_always"), ("5", "allow_once"))
    assert [permissions.choose(asked(options=offered), answer) for answer in ("allow", "always", "deny")] == [
        "5",
        "3",
        "9",
    ]
    assert permissions.choose(asked(options=(("3", "allow_always"),)), "allow") == "3"
    assert permissions.choose(asked(options=(("3", "allow_always"),)), "deny") is None


@pytest.mark.parametrize(
    ("kind", "title", "own"),
    [
        ("other", "shopfloor_task-add", True), ("other", "mcp__shopfloor__task-list", True),
        ("other", "task-add (shopfloor MCP Server)", True), ("other", "mcp__shopfloor__mcp__mail__list_inbox", True),
        ("read", "shopfloor_read_file", True), ("other", "mcp__other__mcp__mail__send", False), ("execute", "shopfloor_task-add", False),
        ("other", "shopfloor_task-add; rm -rf /", False), ("other", "rm -rf /", False), ("edit", "shopfloor_task-add", False),
    ],
)  # fmt: skip
def test_the_runs_own_tools_need_no_leave(kind: str, title: str, own: bool):
    assert permissions.is_own_tool(asked(kind, title)) is own


def test_rules_go_by_kind_and_path(tmp_path: Path):
    rules = [
        PermissionRule(kind="edit", path="src/*", answer="allow"),
        PermissionRule(kind="execute", answer="ask"),
        PermissionRule(kind="read", answer="deny"),
    ]

    def answer(*given: str) -> str | None:
        return permissions.by_rules(asked(given[0], "t", *given[1:]), rules, tmp_path)

    assert answer("edit", str(tmp_path / "src/a.py")) == "allow"
    assert answer("edit", "src/a.py", "src/b/c.py") == "allow"
    assert answer("edit", "src/../setup.py") is None
    assert answer("edit", "src/a.py", "/etc/passwd") is None
    assert answer("edit") is None
    assert (answer("execute"), answer("read"), answer("delete")) == ("ask", "deny", None)


# Prompt, options, budgets


def test_values_of_the_prompt_are_not_looked_into():
    filled = prompt.fill("{{spec}} {{ notes }}", {"spec": "see {{notes}}", "notes": "N"})
    assert filled == "see {{notes}} N"


def test_a_template_with_an_unknown_variable_is_refused(tmp_path: Path):
    (tmp_path / "t.md").write_text("{{spec}} {{secret}}")
    with pytest.raises(BadSettings, match="secret"):
        prompt.load(tmp_path / "t.md")
    assert all(f"{{{{{name}}}}}" in prompt.load(None) for name in prompt.VARIABLES)


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


def test_usage_only_grows_and_takes_numbers_only():
    usage = Usage()
    for tokens, cost in [(5, None), (3, 0.5), ("9", "1"), (True, True), (None, -1)]:
        usage.report(tokens, cost)
    assert (usage.tokens, usage.cost) == (5, 500_000)


def test_each_budget_names_the_option_that_gives_more():
    run = Run("r", RunState.ACTIVE, Wanted.GO, None, "", "", "", 0, None, None, 0, None, 0, None, 10, 10, 0, 0, 0, None)
    for options, more in [
        (RunOptions(iterations=2), "--iterations 4"), (RunOptions(tokens=10), "--tokens 20"),
        (RunOptions(time=1), "--time 2s"), (RunOptions(cost=0.00001), "--cost 0.00"),
    ]:  # fmt: skip
        found = used_up(run, options, 2, Usage(), 1.0)
        assert found is not None
        assert found.more == more
    assert used_up(run, RunOptions(), 2, Usage(), 1.0) is None


def test_a_stopwatch_stands_still_while_somebody_is_waited_for():
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


def test_json_lines_leave_the_small_talk_out():
    stream = io.StringIO()
    view = JsonLines(stream)
    view.show("progress", budget="x")
    view.show("said", text="x")
    view.show("iteration_started", run="r", iteration=1)
    [line] = stream.getvalue().splitlines()
    assert json.loads(line) | {"at": ""} == {"at": "", "event": "iteration_started", "run": "r", "iteration": 1}


def test_the_live_view_shows_what_goes_on_and_takes_keys():
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    view = LiveView(console)
    view.show("iteration_started", run="r", iteration=4)
    view.show("progress", task="TAS-1 build it", budget="iteration 5/50")
    view.show("tool_call", title="write \x1b[31mfile", status="completed", kind="edit")
    view.show("permission_asked", number=7, question="May the agent edit?")
    console.print(view.panel())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("run r", "TAS-1 build it", "iteration 5/50", "elapsed", "question 7: May the agent edit?", "write"):
        assert text in shown
    assert "\x1b" not in shown
    assert (view.pressed("A"), view.pressed("x")) == ((7, "allow"), None)
    view.show("permission_answered", number=7, answer="allow")
    assert view.pressed("a") is None
