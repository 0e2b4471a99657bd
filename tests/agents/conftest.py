"""A stub model, and the environment in which agents from npm use it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runner.support import wait_until

HERE = Path(__file__).parent
PROGRAMS = HERE / "node_modules" / ".bin"


@dataclass(frozen=True, slots=True)
class StubModel:
    """A running stub of a model API: its URL, and the file with its requests."""

    url: str
    log: Path


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubModel]:
    """Run the stub model, and set the environment so that agents use it and find an empty home folder."""
    port, log = tmp_path / "port", tmp_path / "model.log"
    with log.open("w") as stream:
        process = subprocess.Popen([sys.executable, str(HERE / "model.py"), str(port)], stdout=stream)
    try:
        wait_until(lambda: port.exists() and port.read_text())
        url = f"http://127.0.0.1:{port.read_text()}/v1"
        for name, folder in [
            ("HOME", "home"),
            *((f"XDG_{kind}_HOME", kind) for kind in ("DATA", "CONFIG", "CACHE", "STATE")),
        ]:
            (tmp_path / folder).mkdir(exist_ok=True)
            monkeypatch.setenv(name, str(tmp_path / folder))
        monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", json.dumps(_build_opencode_config(url)))
        for name, value in {"API_KEY": "none", "BASE_URL": url, "MODEL": "scripted"}.items():
            monkeypatch.setenv(f"OPENAI_{name}", value)
        yield StubModel(url, log)
    finally:
        process.kill()
        process.wait()


def _build_opencode_config(url: str) -> dict[str, object]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Stub",
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {"scripted": {"name": "Scripted", "limit": {"context": 100_000, "output": 10_000}}},
    }
    return {
        "model": "stub/scripted",
        "small_model": "stub/scripted",
        "provider": {"stub": provider},
        "autoupdate": False,
        "share": "disabled",
    }
