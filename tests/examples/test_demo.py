"""The demo is a program that uses the public API only: a real server, real processes, real calls."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from shopfloor import Settings, Shopfloor

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMEOUT_SECONDS = 180


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "shopfloor", "demo", *arguments],
        env=os.environ | {"PYTHONPATH": str(EXAMPLES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


def fill_server(project: Path, seconds: int) -> str:
    done = run_demo("--seconds", str(seconds), "--leave", "--port", "0", "--folder", str(project))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_fills_a_server_with_real_calls(tmp_path: Path) -> None:
    project = tmp_path / "demo"
    (link,) = (word for word in fill_server(project, 6).split() if "/enter?token=" in word)
    with Shopfloor(Settings(project=project, embeddings="off")) as shopfloor:
        overview = shopfloor.call("desk", "floor_overview")
        states = {agent["id"]: agent["state"] for agent in overview["agents"]}
        assert set(states) >= {"lead", "planner", *(f"builder-{n}" for n in (1, 2, 3, 4))}
        assert states["tester"] == "failed"
        assert [(each["tool"], each["count"]) for each in overview["escalations"]] == [("mcp__stock__count", 2)]
        assert len(shopfloor.call("desk", "board_epics")["epics"]) == 4
        [crew] = shopfloor.call("desk", "crew_list")["crews"]
        assert (crew["crew"], crew["epicId"], crew["wantedWorkers"]) == ("shop", "epic-4", 2)
        calls = shopfloor.call("desk", "log_search", {"limit": 200})["calls"]
        assert {call["by"] for call in calls} >= {"agent:lead", "agent:planner", "user:customer"}
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(link, timeout=5)


def test_the_demo_takes_a_free_port_says_what_it_does_and_ends_with_its_terminal(tmp_path: Path) -> None:
    with socket.socket() as taken:
        # If another server has the port already, it is taken as well.
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 3001))
            taken.listen()
        demo = subprocess.Popen(
            [sys.executable, "-P", "-m", "shopfloor", "demo", "--folder", str(tmp_path / "demo")],
            env=os.environ | {"PYTHONPATH": str(EXAMPLES)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert demo.stdout is not None
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if "/enter?token=" in line:
                break
        link = lines[-1].split()[-1]
        assert ":3001/" not in link
        assert [line.split("  ")[1] for line in lines[1:5]] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
        address = link.partition("/enter")[0]
        assert httpx2.get(f"{address}/healthz", timeout=120).status_code == 200
        demo.send_signal(signal.SIGHUP)
        demo.communicate(timeout=TIMEOUT_SECONDS)
    assert demo.returncode == 0
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(f"{address}/healthz", timeout=5)


def test_the_demo_rejects_a_folder_with_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = run_demo("--folder", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--nope"], "No such option: --nope"),
        (["crew"], "Got unexpected extra argument (crew)"),
        (["--seconds", "0"], "--seconds must be between 1 and 3600"),
        (["--folder", "/proc/demo"], "/proc/demo cannot be used: No such file or directory"),
    ],
)
def test_wrong_arguments_of_the_demo_are_an_error_and_a_hint(arguments: list[str], error: str) -> None:
    done = run_demo(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"shopfloor: {error}\n  See shopfloor demo --help\n"


def test_help_lists_the_options_of_the_demo() -> None:
    done = run_demo("--help")
    assert done.returncode == 0
    assert "--seconds" in done.stdout


@pytest.mark.long
def test_the_demo_shows_what_waits_for_a_person_and_a_silent_agent(tmp_path: Path) -> None:
    fill_server(tmp_path / "demo", 40)
    with Shopfloor(Settings(project=tmp_path / "demo", embeddings="off")) as shopfloor:
        states = {agent["id"]: agent["state"] for agent in shopfloor.call("desk", "floor_overview")["agents"]}
        waiting = shopfloor.call("desk", "inbox_list")
        notified = "builder-4 has gone silent" in {mail["subject"] for mail in waiting["mails"]}
        assert notified or states["builder-4"] == "silent"
        assert any(mail.get("question", {}).get("options") for mail in waiting["mails"])
        assert any("escalation" in mail for mail in waiting["mails"])
        crew = shopfloor.call("desk", "crew_show", {"crew": "shop"})
        assert crew["taskCounts"]["COMPLETED"] > 0
        assert crew["tokens"] > 0
