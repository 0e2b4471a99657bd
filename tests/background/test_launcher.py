"""The launcher of a server starts real runs, which outlive it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.runner.support import AGENT, SPEC
from tests.serving import run_in_thread, serve_in_thread
from tests.workbench import wait_until


def _call(shopfloor: Shopfloor, tool: str, **given: Any) -> Any:
    return run_in_thread(lambda: shopfloor.call("desk", tool, given))


def _configure(project: Path, agent: str) -> None:
    (project / "shopfloor.toml").write_text(f"[run]\nagent = {agent!r}\ngrace = '2s'\n")


def test_started_run_works_its_specification_off_and_is_visible(tmp_path: Path) -> None:
    _configure(tmp_path, f"{sys.executable} {AGENT} good")
    shopfloor = run_in_thread(
        lambda: Shopfloor(Settings(project=tmp_path, port=0, embeddings="off"), kind="serve").__enter__()
    )
    with serve_in_thread(shopfloor):
        assert _call(shopfloor, "run_start", spec=SPEC, name="files", iterations=9)["state"] == "waiting"

        def is_completed() -> bool:
            found = _call(shopfloor, "run_list")["runs"]
            return bool(found) and found[0]["status"] == "completed"

        wait_until(is_completed)
        (run,) = _call(shopfloor, "run_list")["runs"]
        assert run["run"] == "files"
        (launch,) = _call(shopfloor, "launch_list")["launches"]
        assert (launch["state"], launch["problem"], launch["pid"] is not None) == ("started", None, True)
    run_in_thread(shopfloor.close)
    assert (tmp_path / "one.txt").exists()


def test_run_that_cannot_start_says_why(tmp_path: Path) -> None:
    _configure(tmp_path, "no-such-program-at-all")
    shopfloor = run_in_thread(
        lambda: Shopfloor(Settings(project=tmp_path, port=0, embeddings="off"), kind="serve").__enter__()
    )
    with serve_in_thread(shopfloor):
        _call(shopfloor, "run_start", spec=SPEC, name="files")
        wait_until(lambda: _call(shopfloor, "launch_list")["launches"][0]["state"] == "failed")
        (launch,) = _call(shopfloor, "launch_list")["launches"]
        assert "Agent program 'no-such-program-at-all' not found" in launch["problem"]
        assert _call(shopfloor, "run_list")["runs"] == []
    run_in_thread(shopfloor.close)
