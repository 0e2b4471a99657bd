"""A project for each test, and the program in this process."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shopfloor import cli

Run = Callable[..., tuple[int, str, str]]
RunJson = Callable[..., Any]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


@pytest.fixture
def restore_logging() -> Iterator[None]:
    """Restore logging, which commands that serve configure."""
    root, ours = logging.getLogger(), logging.getLogger("shopfloor")
    before = (root.handlers[:], root.level, ours.level)
    yield
    root.handlers[:], root.level, ours.level = before


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the program and returns its exit code, output and errors."""

    def run_program(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["shopfloor", *arguments])
        # Under `python -m pytest` the usage line would name that module.
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
        with pytest.raises(SystemExit) as exit_info:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        code = exit_info.value.code or 0
        assert isinstance(code, int)
        return code, out, err

    return run_program


@pytest.fixture
def run_json(run: Run) -> RunJson:
    """Return a function that runs a command with --json and returns what it printed."""

    def run_json(*arguments: str) -> Any:
        code, out, err = run(*arguments, "--json")
        assert (code, err) == (0, "")
        assert out.count("\n") == 1
        return json.loads(out)

    return run_json
