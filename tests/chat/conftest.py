from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.chat.model import KEY
from tests.serving import ServedShopfloor, serve_in_thread

MODEL = Path(__file__).parent / "model.py"


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    """Run the stub model in a process and return its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(MODEL), str(port)], env={**os.environ})
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 30
    while True:
        try:
            httpx2.get(f"{url}/requests")
            break
        except httpx2.TransportError:
            assert process.poll() is None, "the model ended"
            assert time.monotonic() < deadline, "the model did not start"
            time.sleep(0.05)
    yield url
    process.kill()
    process.wait(10)


@pytest.fixture
def requests(model: str) -> Any:
    """Return a function that takes the requests that the model got since the last call."""

    def take_requests() -> list[Any]:
        answer: list[Any] = httpx2.get(f"{model}/requests").json()
        return answer

    take_requests()
    return take_requests


@pytest.fixture(params=["chat_completions", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def settings(
    tmp_path: Path, model: str, api: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return Settings(
        project=tmp_path,
        chat_base_url=f"{model}/v1",
        chat_api=api,
        # On a busy machine a turn of the stub takes seconds; only tests of a model that never answers wait for the end.
        chat_timeout=8 if request.node.get_closest_marker("silent_model") else 300,
        chat_turns=0,
        chat_history=6,
        port=0,
    )


@pytest.fixture
def shopfloor(settings: Settings) -> Iterator[Shopfloor]:
    with Shopfloor(settings) as shopfloor:
        yield shopfloor


@pytest.fixture
def server(shopfloor: Shopfloor) -> Iterator[ServedShopfloor]:
    with serve_in_thread(shopfloor) as server:
        yield server
