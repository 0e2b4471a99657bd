"""Calls write a log line at their start and one at their end, and are counted in the metrics."""

from __future__ import annotations

import json
import logging

import pytest

from shopfloor.domain.decisions import format_reference
from shopfloor.gateways import logs
from tests.workbench import busy, wrong_state


@pytest.fixture
def database(tmp_path):
    """Lines and figures do not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


@pytest.fixture
def lines(tmp_path):
    """What is logged from here on, line by line, as the program writes it."""
    root, ours = logging.getLogger(), logging.getLogger("shopfloor")
    before = (root.handlers[:], root.level, ours.level)
    handlers = []
    path = tmp_path / "lines"
    path.touch()

    def configure(style="json", level="info"):
        with path.open("w", encoding="utf-8") as stream:
            handlers.append(logs.configure_logging(style, level, stream))
        return read

    def read():
        handlers[-1].flush()
        return path.read_text(encoding="utf-8").splitlines()

    yield configure
    root.handlers[:], root.level, ours.level = before
    for handler in handlers:
        handler.close()


def read_metrics(shopfloor):
    text = shopfloor.engine.telemetry.metrics.render().decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_call_logs_one_line_at_its_start_and_one_at_its_end(shopfloor, lines):
    read = lines()
    answer = shopfloor.answer("bench", "note", {"text": "x", "password": "hunter2"}, None)
    shopfloor.answer("bench", "note", {"text": "x"}, None)
    began, ended, _, good = (json.loads(line) for line in read())
    reference = format_reference(answer.record.reference)
    assert {key: value for key, value in began.items() if key != "time"} == {
        "level": "info",
        "logger": "shopfloor.calls",
        "message": "call started",
        "tool": "note",
        "toolset": "bench",
        "parameters": '{"text":"x","password":"***"}',
        "transport": "python",
        "session": None,
        "reference": reference,
    }
    assert {key: value for key, value in ended.items() if key not in ("time", "ms")} == {
        "level": "info",
        "logger": "shopfloor.calls",
        "message": "call ended",
        "tool": "note",
        "toolset": "bench",
        "caller": "agent:local",
        "session": None,
        "success": False,
        "code": "INVALID_INPUT",
        "size": None,
        "reference": reference,
    }
    assert (good["success"], good["code"], good["size"]) == (True, None, len(shopfloor.log()[-1].context))


def test_reads_of_the_pages_are_logged_at_the_debug_level(shopfloor, lines):
    """Fault F36: one page view was up to eight lines on the server's console."""
    read = lines()
    shopfloor.answer("desk", "inbox_list", {}, None)
    assert read() == []
    shopfloor.answer("desk", "inbox_list", {"limit": 0}, None)
    assert [json.loads(line)["success"] for line in read()] == [False]


@pytest.mark.parametrize("input", [{"text": "\ud800"}, {"text": "a\x00\x1b[2J\nb"}, {"\u202e": 1}])
def test_any_input_is_logged_on_one_line_without_control_characters(shopfloor, lines, input):
    read = lines("pretty")
    shopfloor.ask("no\x1b[2J\nsuch", input)
    assert len(read()) == 2
    assert "".join(read()).isprintable()


def test_lines_below_the_log_level_are_not_written(shopfloor, lines):
    read = lines(level="warning")
    shopfloor.ask("look")
    assert read() == []


def test_calls_are_counted_by_tool_and_outcome(open_workbench):
    shopfloor = open_workbench(settings={"rate_limits": {"look": 1}})
    shopfloor.tools.failures = [busy(), busy(), wrong_state()]
    for tool in ("note", "note", "look", "look"):
        shopfloor.ask(tool, {"text": "x"})
    counted = {name: value for name, value in read_metrics(shopfloor).items() if "_total" in name}
    assert counted == {
        'shopfloor_calls_total{outcome="INVALID_AGENT_STATE",tool="note",toolset="bench"}': "1.0",
        'shopfloor_calls_total{outcome="ok",tool="note",toolset="bench"}': "1.0",
        'shopfloor_calls_total{outcome="ok",tool="look",toolset="bench"}': "1.0",
        'shopfloor_calls_total{outcome="RATE_LIMITED",tool="look",toolset="bench"}': "1.0",
        'shopfloor_rate_limited_total{tool="look"}': "1.0",
        'shopfloor_retries_total{tool="note"}': "2.0",
    }


def test_unknown_tool_names_share_one_metric_label(shopfloor):
    for number in range(20):
        shopfloor.ask(f"made_up_{number}")
        shopfloor.engine.reject_overload(shopfloor.new_request(f"made_up_{number}"))
    names = [name for name in read_metrics(shopfloor) if name.startswith("shopfloor_calls_total")]
    assert names == [
        'shopfloor_calls_total{outcome="TOOL_NOT_FOUND",tool="unknown",toolset="bench"}',
        'shopfloor_calls_total{outcome="TRANSIENT_ERROR",tool="unknown",toolset="bench"}',
    ]


def test_metrics_page_reports_the_store_and_the_outbox(shopfloor):
    shopfloor.ask("note", {"text": "x"})
    assert {
        "shopfloor_deliveries_waiting",
        "shopfloor_deliveries_dead",
        "shopfloor_store_queue_depth",
        "shopfloor_store_wal_bytes",
        "shopfloor_log_lines_dropped",
        "shopfloor_commit_batch_size_count",
        'shopfloor_call_seconds_bucket{le="0.001",tool="note",toolset="bench"}',
    } <= set(read_metrics(shopfloor))
