"""The measurement of calls in process: with the real store and with a replayed one, every call must succeed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.in_process import InProcess
from bench.server import create_agents
from bench.tools import Measured
from shopfloor import Settings, Shopfloor


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shopfloor]:
    data: Path = tmp_path_factory.mktemp("bench")
    settings = Settings(project=data, data=data)
    create_agents(settings)
    with Shopfloor(settings) as shopfloor:
        yield shopfloor


@pytest.mark.parametrize("storeless", [False, True])
@pytest.mark.parametrize("kind", ["write", "read"])
def test_each_kind_of_call_succeeds_while_it_is_measured(measured: Shopfloor, kind: str, storeless: bool):
    figures = InProcess(measured).measure(kind, clients=1, seconds=0.01, storeless=storeless)
    assert figures.keys() == {"calls", "seconds", "cpu"}


def test_a_failing_call_fails_the_measurement(measured: Shopfloor):
    in_process = InProcess(measured)
    in_process._tools = {"write": Measured("mcp__mail__send", {"subject": "No recipient"})}
    with pytest.raises(RuntimeError, match="mcp__mail__send rejected"):
        in_process.measure("write", clients=1, seconds=0.01)
