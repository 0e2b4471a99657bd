"""What a call leaves outside of the store: a line when it starts, one when it ends, and figures."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from typing import Any

import pytest

from shopfloor.domain.decisions import spell_reference
from shopfloor.gateways import logs
from tests.workbench import busy, wrong_state


@pytest.fixture
def database(tmp_path):
    """Lines and figures do not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


@pytest.fixture
def lines():
    """What is logged from here on, line by line, as the program writes it."""
    root, ours = logging.getLogger(), logging.getLogger("shopfloor")
    before = (root.handlers[:], root.level, ours.level)
    stream = io.StringIO()

    def set_up(style="json", level="info"):
        logs.set_up(style, level, stream)
        return lambda: stream.getvalue().splitlines()

    yield set_up
    root.handlers[:], root.level, ours.level = before


def figures(floor):
    text = floor.floor.metrics.page().decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_a_call_has_a_line_when_it_starts_and_one_when_it_ends(floor, lines):
    read = lines()
    answer = floor.answer("bench", "note", {"text": "x", "password": "hunter2"}, None)
    floor.answer("bench", "note", {"text": "x"}, None)
    began, ended, _, good = (json.loads(line) for line in read())
    reference = spell_reference(answer.call.reference)
    assert {key: value for key, value in began.items() if key != "time"} == {
        "level": "info",
        "logger": "shopfloor.calls",
        "message": "call started",
        "tool": "note",
        "toolset": "bench",
        "parameters": '{"text":"x","password":"***"}',
        "door": "python",
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
    assert (good["success"], good["code"], good["size"]) == (True, None, len(floor.log()[-1].context))


@pytest.mark.parametrize("input", [{"text": "\ud800"}, {"text": "a\x00\x1b[2J\nb"}, {"\u202e": 1}])
def test_whatever_is_sent_stays_on_one_line_and_cannot_steer_the_terminal(floor, lines, input):
    read = lines("pretty")
    floor.ask("no\x1b[2J\nsuch", input)
    assert len(read()) == 2
    assert "".join(read()).isprintable()


def test_on_an_event_loop_the_lines_of_one_turn_are_written_together_and_in_order(lines, monkeypatch):
    written = lines()
    handler: Any = logging.getLogger().handlers[0]
    writes = []
    monkeypatch.setattr(handler.stream, "flush", lambda: writes.append(len(written())))
    log = logging.getLogger("shopfloor.test")

    async def turns():
        for number in range(3):
            log.info("line %s", number)
        assert writes == []
        await asyncio.sleep(0)
        assert writes == [3]
        log.info("line 3")
        log.warning("line 4")
        assert writes == [3, 5]  # what may matter waits for nothing

    asyncio.run(turns())
    log.info("line 5")
    assert writes == [3, 5, 6]
    assert [json.loads(line)["message"] for line in written()] == [f"line {number}" for number in range(6)]


def test_a_log_that_nobody_reads_any_more_stops_nobody(lines):
    lines()
    handler: Any = logging.getLogger().handlers[0]
    handler.stream.close()
    logging.getLogger("shopfloor.test").info("said to nobody")


def test_below_the_level_nothing_is_written(floor, lines):
    read = lines(level="warning")
    floor.ask("look")
    assert read() == []


def test_calls_are_counted_by_tool_and_outcome(opened):
    floor = opened(settings={"rate_limits": {"look": 1}})
    floor.tools.failures = [busy(), busy(), wrong_state()]
    for tool in ("note", "note", "look", "look"):
        floor.ask(tool, {"text": "x"})
    counted = {name: value for name, value in figures(floor).items() if "_total" in name}
    assert counted == {
        'shopfloor_calls_total{outcome="INVALID_AGENT_STATE",tool="note",toolset="bench"}': "1.0",
        'shopfloor_calls_total{outcome="ok",tool="note",toolset="bench"}': "1.0",
        'shopfloor_calls_total{outcome="ok",tool="look",toolset="bench"}': "1.0",
        'shopfloor_calls_total{outcome="RATE_LIMITED",tool="look",toolset="bench"}': "1.0",
        'shopfloor_rate_limited_total{tool="look"}': "1.0",
        'shopfloor_retries_total{tool="note"}': "2.0",
    }


def test_names_that_callers_make_up_are_counted_as_one(floor):
    for number in range(20):
        floor.ask(f"made_up_{number}")
        floor.floor.turn_away(floor.a_call(f"made_up_{number}"))
    names = [name for name in figures(floor) if name.startswith("shopfloor_calls_total")]
    assert names == [
        'shopfloor_calls_total{outcome="TOOL_NOT_FOUND",tool="unknown",toolset="bench"}',
        'shopfloor_calls_total{outcome="TRANSIENT_ERROR",tool="unknown",toolset="bench"}',
    ]


def test_the_page_tells_how_the_store_and_the_outbox_are(floor):
    floor.ask("note", {"text": "x"})
    assert {
        "shopfloor_deliveries_waiting",
        "shopfloor_deliveries_dead",
        "shopfloor_store_queue_depth",
        "shopfloor_store_wal_bytes",
        "shopfloor_commit_batch_size_count",
        'shopfloor_call_seconds_bucket{le="0.001",tool="note",toolset="bench"}',
    } <= set(figures(floor))
