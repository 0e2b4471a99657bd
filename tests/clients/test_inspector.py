"""Run the official Inspector against a real server."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.inspector import inspect
from tests.transports.server import bearer, serving
from tests.transports.team import LOG_DECISION, WORKER_TOOLS

ERAS = ["legacy", "modern"]


@dataclass
class Worker:
    """An agent that uses the Inspector."""

    url: str
    token: str

    def inspect(self, method: str, *arguments: str, era: str) -> dict[str, Any]:
        return inspect(f"{self.url}/mcp", method, *arguments, headers=bearer(self.token), era=era)

    def call(self, tool: str, arguments: dict[str, Any], era: str) -> dict[str, Any]:
        return self.inspect("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments), era=era)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with serving(tmp_path_factory.mktemp("inspected")) as server:
        yield Worker(server.url, server.agent("worker"))


@pytest.mark.parametrize("era", ERAS)
def test_inspector_lists_tools_without_warnings(worker: Worker, era: str) -> None:
    listed = worker.inspect("tools/list", era=era)
    assert set(WORKER_TOOLS) <= {tool["name"] for tool in listed["result"]["tools"]}
    assert (listed["problems"], listed.get("error")) == ("", None)


@pytest.mark.parametrize("era", ERAS)
def test_inspector_calls_a_tool(worker: Worker, era: str) -> None:
    called = worker.call(LOG_DECISION, {"title": "Chose a queue", "body": "Because of the load"}, era)
    answer = called["result"]["structuredContent"]
    assert answer["data"]["logId"].startswith("log-")
    assert json.loads(called["result"]["content"][0]["text"]) == answer
    assert called.get("error") is None


@pytest.mark.parametrize("era", ERAS)
def test_inspector_reports_a_rejected_call_as_an_error(worker: Worker, era: str) -> None:
    rejected = worker.call(LOG_DECISION, {"title": "", "body": ""}, era)
    assert rejected["result"]["isError"] is True
    assert rejected["result"]["structuredContent"]["error"]["code"] == "INVALID_INPUT"
    assert rejected["error"]["code"] == "tool_is_error"


def test_inspector_without_a_token_gets_an_error(worker: Worker) -> None:
    rejected = inspect(f"{worker.url}/mcp", "tools/list", era="legacy")
    assert "result" not in rejected
    assert rejected["error"]
