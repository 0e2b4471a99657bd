"""The context of a log row is JSON without secrets, limited in size and fast to build."""

from __future__ import annotations

import hashlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shopfloor.domain import decisions, redaction
from shopfloor.domain.decisions import (
    MAX_CONTEXT_BYTES,
    format_context,
    format_reference,
    format_sized_context,
    new_reference,
    parse_reference,
)

PEM = "-----BEGIN PRIVATE KEY-----\n" + "MIIE" * 16_300 + "\n-----END PRIVATE KEY-----"
TOKEN = "sfa_abcdefghjkmn_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE"


@pytest.mark.parametrize(
    ("value", "context"),
    [
        ({}, "{}"),
        ({"a": "ä\n\x00"}, '{"a":"ä\\n\\u0000"}'),
        ({"password": "x", "b": 1}, '{"password":"***","b":1}'),
        ({"token": ["x"], "SECRET": {"a": "x"}, "pin_token": 5}, '{"token":"***","SECRET":"***","pin_token":"***"}'),
        ({"token": None, "secret": False}, '{"token":null,"secret":false}'),
        ({"a": [{"Authorization": "x"}]}, '{"a":[{"Authorization":"***"}]}'),
        ({"a": "x\n" + TOKEN}, '{"a":"x\\n***"}'),
        ({TOKEN: 1}, '{"***":1}'),
        ({"a": '{"password": "x"}'}, '{"a":"{\\"password\\":\\"***\\"}"}'),
        ({"a": "\ud800"}, '{"a":"\\\\ud800"}'),
        ({"password": "\ud800"}, '{"password":"***"}'),
        ({"a": b"\xff"}, '{"a":"b\'\\\\xff\'"}'),
        ({"a": float("nan")}, '{"a":null}'),
        ([1, 2], "[1,2]"),
        ("text", '"text"'),
        (None, "null"),
    ],
)
def test_context_is_json_without_secrets(value, context):
    assert format_context(value) == context


def test_context_with_a_huge_number_is_kept_and_redacted():
    kept = format_context({"note": f"use {TOKEN}", "n": 10**5000})
    assert "Zm9v" not in kept
    assert "use ***" in json.loads(kept)


def nest(levels):
    value: object = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [100, 300, 900, 100_000])
@pytest.mark.parametrize("leaf", ["x", "password"])
def test_deeply_nested_context_is_valid_json(levels, leaf):
    json.loads(format_context({leaf: nest(levels)}))


def test_context_over_the_limit_is_truncated():
    text = "x" * (MAX_CONTEXT_BYTES - len('{"a":""}'))
    assert format_sized_context({"a": text}) == (f'{{"a":"{text}"}}', MAX_CONTEXT_BYTES)
    whole = f'{{"a":"{text}x"}}'
    kept, size = format_sized_context({"a": text + "x"})
    assert size == MAX_CONTEXT_BYTES + 1
    assert json.loads(kept) == {
        "truncated": True,
        "size": MAX_CONTEXT_BYTES + 1,
        "sha256": hashlib.sha256(whole.encode()).hexdigest(),
        "head": whole[: MAX_CONTEXT_BYTES // 2],
    }


@pytest.mark.parametrize("filler", ['"', "\\", "\x01", "ä", "🔑"])
def test_truncated_context_never_exceeds_the_limit(filler):
    kept = format_context({"a": filler * 40_000})
    assert len(kept.encode()) <= MAX_CONTEXT_BYTES
    assert json.loads(kept)["truncated"] is True


def test_secrets_are_redacted_before_truncation():
    before = "x" * (MAX_CONTEXT_BYTES // 2 - 20)
    assert "Zm9v" not in format_context({"a": f"{before} {TOKEN} {'y' * MAX_CONTEXT_BYTES}"})


def test_only_the_beginning_of_a_long_context_is_scanned(monkeypatch):
    scanned: list[int] = []
    redact_json = redaction.redact_json

    def count_characters(text: str) -> str:
        scanned.append(len(text))
        return redact_json(text)

    monkeypatch.setattr(decisions, "redact_json", count_characters)
    value = {"password": "hunter", "a": f"{TOKEN} " * 20_000, "b": [TOKEN, 1]}
    kept, size = format_sized_context(value)
    assert size == len(json.dumps(value, separators=(",", ":")))
    assert json.loads(kept)["head"].startswith('{"password":"***","a":"*** *** ')
    assert "Zm9v" not in kept
    assert scanned[0] < 70_000


@pytest.mark.parametrize("before", ["x " * 32_750, PEM], ids=["words", "a redacted key"])
def test_half_of_a_token_where_a_long_context_is_cut_is_not_kept(before):
    kept = format_context({"a": before + TOKEN * 2000, "pin": 1234})
    assert "Zm9v" not in kept
    assert "1234" not in kept


def test_long_context_that_cannot_be_parsed_is_cut_and_redacted():
    kept = format_context({"a": f"use {TOKEN}, " * 5000, "n": 10**5000})
    assert len(kept.encode()) <= MAX_CONTEXT_BYTES
    assert ("use ***" in kept, "Zm9v" in kept) == (True, False)


@pytest.mark.parametrize(
    "piece",
    [
        "token ",
        "token=",
        "Cookie: ",
        "Basic a",
        "password: a",
        "eyJ-",
        "eyJ.",
        "-----BEGIN PRIVATE KEY-----",
        '"password',
        "://a:",
        "sk-",
        "Bearer ",
        "{",
        '{"key":',
    ],
)
def test_redaction_of_a_hostile_megabyte_is_fast(piece):
    text = piece * (1_000_000 // len(piece))
    began = time.process_time()
    format_context({"a": text})
    assert time.process_time() - began < 2


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_formatted_reference_can_be_parsed(reference):
    assert parse_reference(format_reference(reference)) == reference


def test_references_grow_with_time_and_fit_into_63_bits():
    now = time.time_ns() // 1000
    first, second, late = new_reference(now), new_reference(now + 1000), new_reference(now * 2)
    assert 0 < first < second < late < 2**63
    assert format_reference(first).startswith("ref-")


def test_references_of_the_same_moment_differ():
    assert len({new_reference(1_769_040_000_000_000) for _ in range(200)}) == 200


def test_references_of_processes_of_the_same_moment_differ():
    given = [new_reference(1_769_040_000_000_000, process) for process in range(1, 1025) for _ in range(20)]
    assert len(set(given)) == len(given)
