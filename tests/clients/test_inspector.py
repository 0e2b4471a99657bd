"""The official Inspector against a server put on HTTP the way Shopfloor is."""

from collections.abc import Iterator

import pytest

from tests.clients.inspector import inspect
from tests.clients.serving import serving

ERAS = ["legacy", "modern"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving("ours") as address:
        yield address


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_tools_and_has_no_remarks(url: str, era: str) -> None:
    listed = inspect(url, "tools/list", era=era)
    assert "test_simple_text" in [tool["name"] for tool in listed["result"]["tools"]]
    assert (listed["problems"], listed.get("error")) == ("", None)


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_calls_a_tool(url: str, era: str) -> None:
    called = inspect(
        url, "tools/call", "--tool-name", "test_header_parameter", "--tool-args-json", '{"region": "eu"}', era=era
    )
    assert called["result"]["content"] == [{"type": "text", "text": "Region: eu"}]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_sees_a_refusal_as_one(url: str, era: str) -> None:
    refused = inspect(url, "tools/call", "--tool-name", "test_error_handling", era=era)
    assert refused["result"]["isError"] is True
    assert refused["error"]["code"] == "tool_is_error"
