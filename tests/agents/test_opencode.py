"""A real third-party agent, opencode, does a small specification from planning to verified completion.

Run by `make test-agents`, which installs it; its model is a stub, so that nothing leaves this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loop.support import FILES, Project, until

HERE = Path(__file__).parent
OPENCODE = HERE / "node_modules" / ".bin" / "opencode"

pytestmark = pytest.mark.agents


@pytest.fixture
def model(tmp_path: Path) -> Iterator[str]:
    """The address of a model API."""
    port = tmp_path / "port"
    with (tmp_path / "model.log").open("w") as log:
        process = subprocess.Popen([sys.executable, str(HERE / "model.py"), str(port)], stdout=log)
    try:
        until(lambda: port.exists() and port.read_text())
        yield f"http://127.0.0.1:{port.read_text()}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "project")
    yield project
    until(lambda: not project.left_over())


def test_opencode_works_a_specification_off(project: Project, model: str, tmp_path: Path, monkeypatch):
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Stub",
        "options": {"baseURL": model, "apiKey": "none"},
        "models": {"scripted": {"name": "Scripted", "limit": {"context": 100_000, "output": 10_000}}},
    }
    settings = {
        "model": "stub/scripted",
        "small_model": "stub/scripted",
        "provider": {"stub": provider},
        "autoupdate": False,
        "share": "disabled",
    }
    monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", json.dumps(settings))
    for name, folder in [
        ("HOME", "home"),
        *((f"XDG_{kind}_HOME", kind) for kind in ("DATA", "CONFIG", "CACHE", "STATE")),
    ]:
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.setenv(name, str(tmp_path / folder))
    run = project.popen(
        "run", "--spec", "SPEC.md", "--name", "run", "--headless", "--agent", f"{OPENCODE} acp", "--permissions", "allow",
        "--verify", _verify(), "--iteration-time", "120s",
    )  # fmt: skip
    out, err = run.communicate(timeout=400)
    log = (tmp_path / "model.log").read_text()
    assert run.returncode == 0, f"{out}\n{err[-3000:]}\n{log[-3000:]}"
    assert project.tasks() == [(f"make {name}", "completed") for name in FILES]
    assert project.made() == {name: f"content of {name}\n" for name in FILES}
    assert [each.summary for each in project.iterations()] == [
        "planned 3 tasks", "did TAS-1", "did TAS-2", "did TAS-3",
    ]  # fmt: skip
    assert os.access(OPENCODE, os.X_OK)


def _verify() -> str:
    return f'{sys.executable} -c "import pathlib; [pathlib.Path(n).read_text() for n in {list(FILES)!r}]"'
