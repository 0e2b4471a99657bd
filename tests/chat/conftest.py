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
from tests.serving import Served, served

MODEL = Path(__file__).parent / "model.py"


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    """The address of a model that runs in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(MODEL), str(port)], env={**os.environ})
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 30
    while True:
        try:
            httpx2.get(f"{url}/requests")
            break
        except httpx2.TransportError:
            assert process.poll() is None, "the model ended"
            assert time.monotonic() < until, "the model did not start"
            time.sleep(0.05)
    yield url
    process.kill()
    process.wait(10)


@pytest.fixture
def requests(model: str) -> Any:
    """What the model was sent, since this was last asked."""

    def asked() -> list[Any]:
        answer: list[Any] = httpx2.get(f"{model}/requests").json()
        return answer

    asked()
    return asked


@pytest.fixture(params=["chat_completions", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def settings(tmp_path: Path, model: str, api: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return Settings(
        project=tmp_path,
        chat_base_url=f"{model}/v1",
        chat_api=api,
        chat_timeout=3,
        chat_turns=0,
        chat_history=6,
        port=0,
    )


@pytest.fixture
def floor(settings: Settings) -> Iterator[Shopfloor]:
    with Shopfloor(settings) as floor:
        yield floor


@pytest.fixture
def server(floor: Shopfloor) -> Iterator[Served]:
    with served(floor) as server:
        yield server
