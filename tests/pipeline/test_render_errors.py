"""Every failure is rendered in the shape of its toolset, without internal details."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shopfloor.domain.decisions import format_reference, new_reference, parse_reference
from shopfloor.errors import StoreFailed, StoreReplaced, Unavailable
from shopfloor.pipeline.render_errors import render_errors
from shopfloor.toolkit import Credential, Request, to_envelope
from tests.operator_access import read_as_operator
from tests.workbench import Tools, bare_request, on_sqlite


class RecordingObserver:
    """An observer that records its notifications."""

    def __init__(self):
        self.calls: list[tuple[str, str | None]] = []

    def call_started(self, request, record):
        self.calls.append(("started", None))

    def call_ended(self, request, record, error):
        self.calls.append(("ended", error.code if error else None))


def run_step(last, request=None):
    observed = RecordingObserver()
    times = iter([1_000_000, 1_500_000, 2_000_000])
    step = render_errors(last, lambda: next(times), observed, new_reference)
    return step(request or bare_request(), None), observed.calls


def test_result_is_rendered_by_the_contract_of_its_toolset():
    answer, observed = run_step(lambda *_: {"a": 1})
    assert (answer.body, answer.error, answer.record.started_at, answer.record.finished_at) == (
        {"a": 1},
        None,
        1_000_000,
        1_500_000,
    )
    assert observed == [("started", None), ("ended", None)]


def test_rejection_keeps_its_message():
    def last(*_):
        raise Unavailable("The oven is cold")

    answer, observed = run_step(last)
    assert answer.body == {"error": "TRANSIENT_ERROR", "message": "The oven is cold"}
    assert observed[-1] == ("ended", "TRANSIENT_ERROR")


def test_unexpected_error_shows_only_a_reference():
    def last(*_):
        raise RuntimeError("/etc/shadow line 7")

    answer, _ = run_step(last)
    assert answer.body == {"error": "INTERNAL_ERROR", "message": "An unexpected error occurred"}
    assert answer.error.facts == {"reference": format_reference(answer.record.reference)}
    assert answer.error.hint.endswith(answer.error.facts["reference"])


def test_details_of_an_internal_error_are_logged_only():
    def last(*_):
        raise StoreFailed("The store failed: malformed disk image of /var/lib/floor.db")

    answer, _ = run_step(last)
    assert answer.body == {"error": "INTERNAL_ERROR", "message": "The store failed."}
    assert answer.error.facts == {"reference": format_reference(answer.record.reference)}


def test_failing_contract_is_an_internal_error():
    toolset = Tools().toolset()
    toolset.render_result = lambda value, _: value["missing"]
    request = Request(toolset, "note", {}, Credential(), "test")
    answer, observed = run_step(lambda *_: {}, request)
    assert answer.body == {"error": "INTERNAL_ERROR", "message": "An unexpected error occurred"}
    assert observed[-1] == ("ended", "INTERNAL_ERROR")


@pytest.mark.parametrize("error", [RuntimeError("line 7 of secret.py"), StoreReplaced()])
def test_reference_of_an_internal_error_finds_its_log_rows(shopfloor, error):
    shopfloor.tools.failures = [error]
    answer = shopfloor.answer("bench", "note", {"text": "x"}, None)
    reference = parse_reference(answer.error.facts["reference"])
    found = read_as_operator(shopfloor, lambda uow: uow.decisions.list_page(limit=10, reference=reference))
    assert [entry.kind for entry in found] == ["error", "invocation"]
    assert "secret.py" not in json.dumps(answer.body)


ODD_CALLS: list[tuple[str, Any]] = [
    ("note", None),
    ("note", []),
    ("note", "text"),
    ("note", {"text": "\x00"}),
    ("note", {"text": "\ud800"}),
    ("\ud800", {}),
    ("a\x00b", {}),
    ("", {}),
    ("x" * 100_000, {}),
    ("note", {"x" * 100_000: 1}),
    ("note", {str(number): number for number in range(10_000)}),
]


def test_any_invalid_input_is_rejected_and_logged_with_a_small_response(shopfloor):
    for tool, input in ODD_CALLS:
        answer = shopfloor.ask(tool, input)
        assert answer.error is not None
        assert answer.error.is_rejection
        assert len(json.dumps(to_envelope(answer))) < 10_000
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "error"] * len(ODD_CALLS)
    assert all(len(entry.tool) <= 200 and len(entry.context) <= 16 * 1024 for entry in shopfloor.log())


def nest_lists(levels):
    value: object = "x"
    for _ in range(levels):
        value = [value]
    return value


@on_sqlite
@pytest.mark.parametrize("levels", [65, 300, 5_000])
def test_deeply_nested_input_is_rejected_and_logged(shopfloor, levels):
    assert shopfloor.ask("note", {"text": nest_lists(levels)}).body["error"] == "INVALID_INPUT"
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "error"]
