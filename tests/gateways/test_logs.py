"""The queue between what is logged and the stream it is written to."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time

import pytest

from shopfloor.gateways import logs
from shopfloor.gateways.logs import FLUSH_SECONDS, MAX_QUEUED_LINES, QueuedHandler, configure_logging

PIPE_BYTES = 4096


@pytest.fixture
def pipe():
    """The two ends of a small pipe, as descriptors."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield reader, writer
    for descriptor in (reader, writer):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test has closed it


@pytest.fixture
def log(pipe):
    """A logger that writes JSON lines into the pipe, and its handler."""
    handler = QueuedHandler(pipe[1], "utf-8")
    handler.setFormatter(logs._JsonFormatter())
    logger = logging.Logger("test")  # noqa: LOG001 - not a child of the root logger
    logger.addHandler(handler)
    yield logger, handler
    handler.close()


def drain(reader: int, until: str) -> list[dict]:
    """Read lines up to the one whose message contains the text."""
    data = b""
    with os.fdopen(os.dup(reader), "rb", buffering=0) as pipe:
        while until.encode() not in data or not data.endswith(b"\n"):
            data += pipe.read(65536)
    return [json.loads(line) for line in data.splitlines()]


def test_lines_are_written_in_order(pipe, log):
    logger, handler = log
    for number in range(20):
        logger.info("line %s", number)
    handler.flush()
    assert [line["message"] for line in drain(pipe[0], "line 19")] == [f"line {number}" for number in range(20)]


def test_full_pipe_does_not_block_the_logger_and_drops_are_counted(pipe, log):
    logger, handler = log
    began = time.monotonic()
    sent = 2 * MAX_QUEUED_LINES
    for number in range(sent):
        logger.info("line %s", number)
    assert time.monotonic() - began < 30  # one blocked write would last until the test is killed
    assert handler.dropped > 0
    lines = drain(pipe[0], "log lines were dropped")
    logger.info("the last line")  # the queue has space again
    lines += drain(pipe[0], "the last line")
    reports = [line for line in lines if line["level"] == "warning"]
    written = len(lines) - 2
    assert [(line["logger"], line["message"]) for line in reports] == [
        ("shopfloor.gateways.logs", f"{sent - written} log lines were dropped: nothing read them")
    ]
    assert handler.dropped == sent - written


def test_flush_of_a_full_pipe_times_out(log):
    logger, handler = log
    logger.info("x" * 2 * PIPE_BYTES)
    began = time.monotonic()
    handler.flush()
    assert FLUSH_SECONDS <= time.monotonic() - began < 30


def test_closed_pipe_drops_lines_without_an_error(pipe, log):
    logger, handler = log
    os.close(pipe[0])
    logger.info("nothing reads this")
    handler.flush()
    logger.info("nor this")
    handler.flush()
    assert handler.dropped == 2


def test_non_blocking_descriptor_gets_all_lines(pipe, log):
    logger, handler = log
    os.set_blocking(pipe[1], False)
    for number in range(500):
        logger.info("line %s", number)
    lines = drain(pipe[0], "line 499")
    assert [line["message"] for line in lines] == [f"line {number}" for number in range(500)]
    assert handler.dropped == 0


def test_record_that_cannot_be_formatted_is_reported(pipe, log):
    logger, _ = log
    logger.info("%d lines", "many")
    assert drain(pipe[0], "cannot")[0]["message"] == "A log record of test cannot be formatted: TypeError"


def test_pretty_stack_has_no_control_characters():
    try:
        raise ValueError("text of an agent: \x1b[2J\x9b1m")
    except ValueError as error:
        facts = {"levelno": logging.ERROR, "levelname": "ERROR", "msg": "failed"}
        record = logging.makeLogRecord(facts | {"exc_info": (ValueError, error, error.__traceback__)})
    text = logs._PrettyFormatter().format(record)
    assert "ValueError: text of an agent: \\x1b[2J" in text
    assert text.replace("\n", "").isprintable()


def test_dropped_lines_of_the_process_are_counted(pipe):
    root, ours = logging.getLogger(), logging.getLogger("shopfloor")
    before = (root.handlers[:], root.level, ours.level)
    try:
        with os.fdopen(os.dup(pipe[1]), "w") as stream:
            handler = configure_logging("json", "info", stream)
        os.close(pipe[0])
        logging.getLogger("shopfloor.test").info("nothing reads this")
        handler.flush()
        assert logs.count_dropped_lines() == 1
    finally:
        root.handlers[:], root.level, ours.level = before
        handler.close()


def test_without_standard_error_nothing_is_logged(monkeypatch):
    root, ours = logging.getLogger(), logging.getLogger("shopfloor")
    before = (root.handlers[:], root.level, ours.level)
    try:
        monkeypatch.setattr("sys.stderr", None)
        configure_logging("auto", "info")
        logging.getLogger("shopfloor.test").info("written nowhere")
        assert [type(handler) for handler in root.handlers] == [logging.NullHandler]
    finally:
        root.handlers[:], root.level, ours.level = before
