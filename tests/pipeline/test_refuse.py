"""Every failure leaves in the toolset's own shape, without anything from the inside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shopfloor.domain.decisions import read_reference, spell_reference
from shopfloor.errors import StoreFailed, StoreFull, Unavailable
from shopfloor.pipeline import compose
from shopfloor.pipeline.refuse import refuse
from shopfloor.toolkit import enveloped
from tests.workbench import Tools, bare_call, on_sqlite


def walk(last, call=None):
    heard: list[tuple[str, str | None]] = []
    times = iter([1_000_000, 1_500_000, 2_000_000])
    step = refuse(
        lambda: next(times),
        lambda call: heard.append(("began", None)),
        lambda call, error: heard.append(("ended", error.code if error else None)),
    )
    return compose([step], last)(call or bare_call()), heard


def test_an_answer_goes_through_the_manners_of_its_toolset():
    answer, heard = walk(lambda call: {"a": 1})
    assert (answer.body, answer.error, answer.call.started, answer.call.finished) == (
        {"a": 1},
        None,
        1_000_000,
        1_500_000,
    )
    assert heard == [("began", None), ("ended", None)]


def test_a_refusal_keeps_its_words():
    def last(call):
        raise Unavailable("The oven is cold")

    answer, heard = walk(last)
    assert answer.body == {"error": "TRANSIENT_ERROR", "message": "The oven is cold"}
    assert heard[-1] == ("ended", "TRANSIENT_ERROR")


def test_what_nobody_expected_tells_nothing_but_a_reference():
    def last(call):
        raise RuntimeError("/etc/shadow line 7")

    answer, _ = walk(last)
    assert answer.body == {"error": "INTERNAL_ERROR", "message": "An unexpected error occurred"}
    assert answer.error.facts == {"reference": spell_reference(answer.call.reference)}
    assert answer.error.hint.endswith(answer.error.facts["reference"])


def test_the_engine_speaks_to_the_log_alone():
    def last(call):
        raise StoreFailed("The store failed: malformed disk image of /var/lib/floor.db")

    answer, _ = walk(last)
    assert answer.body == {"error": "INTERNAL_ERROR", "message": "The store failed."}
    assert answer.error.facts == {"reference": spell_reference(answer.call.reference)}


def test_manners_that_fail_are_a_failure_like_any_other():
    toolset = Tools().toolset()
    toolset.answer = lambda value, call: value["missing"]
    call = bare_call()
    call.toolset = toolset
    answer, heard = walk(lambda call: {}, call)
    assert answer.body == {"error": "INTERNAL_ERROR", "message": "An unexpected error occurred"}
    assert heard[-1] == ("ended", "INTERNAL_ERROR")


@pytest.mark.parametrize("error", [RuntimeError("line 7 of secret.py"), StoreFull()])
def test_a_failure_of_the_floor_leads_to_its_rows(floor, error):
    floor.tools.failures = [error]
    answer = floor.answer("bench", "note", {"text": "x"}, None)
    reference = read_reference(answer.error.facts["reference"])
    found = floor.floor.look(lambda work: work.decisions.page(limit=10, reference=reference))
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


def test_whatever_is_sent_is_refused_and_logged_and_the_answer_stays_small(floor):
    for tool, input in ODD_CALLS:
        answer = floor.ask(tool, input)
        assert answer.error is not None
        assert answer.error.refusal
        assert len(json.dumps(enveloped(answer))) < 10_000
    assert [entry.kind for entry in floor.log()] == ["invocation", "error"] * len(ODD_CALLS)
    assert all(len(entry.tool) <= 200 and len(entry.context) <= 16 * 1024 for entry in floor.log())


def deep(levels):
    value: object = "x"
    for _ in range(levels):
        value = [value]
    return value


@on_sqlite
@pytest.mark.parametrize("levels", [65, 300, 5_000])
def test_input_without_a_bottom_is_refused_and_logged(floor, levels):
    assert floor.ask("note", {"text": deep(levels)}).body["error"] == "INVALID_INPUT"
    assert [entry.kind for entry in floor.log()] == ["invocation", "error"]
