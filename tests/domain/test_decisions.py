"""What the log keeps of a value: JSON, without secrets, no longer than it may be, and in no time."""

from __future__ import annotations

import hashlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shopfloor.domain.decisions import (
    CONTEXT_LIMIT,
    context_of,
    new_reference,
    read_reference,
    sized_context,
    spell_reference,
)
from shopfloor.domain.masks import mask

TOKEN = "sfa_abcdefghjkmn_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (TOKEN, "***"),
        (f"use {TOKEN}, please", "use ***, please"),
        (f"x{TOKEN}", "x***"),
        (f"line\n{TOKEN}\nline", "line\n***\nline"),
        (JWT, "***"),
        (f"Cookie a={JWT}; b", "Cookie a=***; b"),
        (PEM, "***"),
        (PEM[:40], "***"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: ***"),
        ("sk-proj-0123456789abcdef", "***"),
        ("\tsk-proj-0123456789abcdef", "\t***"),
        ("ghp_0123456789abcdefghij", "***"),
        ("github_pat_0123456789abcdefghij", "***"),
        ("xoxb-0123456789", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("AIzaSyA0123456789012345678901234567890-", "***"),
        ("postgres://user:hunter2@host/db", "postgres://***@host/db"),
        ('{"password": "hunter2", "user": "guest"}', '{"password":"***","user":"guest"}'),
        ('[{"apiKey": "x"}]', '[{"apiKey":"***"}]'),
        ("glpat-Zm9vYmFyYmF6cXV4Zm9v", "***"),
        ("ASIAIOSFODNN7EXAMPLE", "***"),
        ("ya29.a0AfH6SMBx_Zm9vYmFyYmF6cXV4", "***"),
        ("npm_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4", "***"),
        ("pypi-AgEIcHlwaS5vcmcCJDhkMTk0", "***"),
        ("hf_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6", "***"),
        ("SG.Zm9vYmFyYmF6cXV4Zm9v.Zm9vYmFyYmF6cXV4Zm9vYmFy", "***"),
        ("sk_live_Zm9vYmFyYmF6cXV4", "***"),
        ("whsec_Zm9vYmFyYmF6cXV4Zm9v", "***"),
        ("lin_api_Zm9vYmFyYmF6cXV4Zm9v", "***"),
        ("dop_v1_0123456789abcdef0123456789abcdef", "***"),
        ("https://hooks.slack.com/services/T00000000/B00000000/Zm9vYmFy", "https://hooks.slack.com/services/***"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc", "***"),
        ("curl -u x -H 'Authorization: Basic dXNlcjpwYXNzd29yZDEyMw=='", "curl -u x -H 'Authorization: ***'"),
        ("log in with password=hunter2secret, please", "log in with password=***, please"),
        ("PASSWORD: hunter2secret", "PASSWORD: ***"),
        ("DB_PASSWORD='correcthorse'", "DB_PASSWORD='***'"),
        ("api_key = 'abcd1234efgh'", "api_key = '***'"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=***"),
        ("https://x.example/?access_token=abcdef&page=2", "https://x.example/?access_token=***&page=2"),
        ("https://x.example/blob?sv=1&sig=abcdef", "https://x.example/blob?sv=1&sig=***"),
        ("Cookie: session=abc; theme=dark\nHost: x", "Cookie: ***\nHost: x"),
        ('{"pwd": "x", "accessKey": "y", "pin": 1234}', '{"pwd":"***","accessKey":"***","pin":"***"}'),
    ],
)
def test_a_secret_is_masked(text, masked):
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Use JWT tokens instead of session cookies",
        "task-0123456789abcdefghij",
        "https://example.com:8080/path@v2",
        "a secret plan, and the key to it",
        '{"tokenizer": null,  "secret": true}',
        '{ "key":   "value" }',
        "{not json, but a token}",
        "eyJ.eyJ.eyJ",
        "token: see the next section",
        "The password: whatever the user chose",
        "npm_config_registry and secret_management_service_name",
        "key-value-store-with-a-very-long-name",
        "Basic functionality and internationalization",
        "opinion, mapping, assigned, session, code: 42",
        "max_tokens=16",
    ],
)
def test_what_is_no_secret_stays_byte_for_byte(text):
    assert mask(text) == text


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
def test_the_log_keeps_json(value, context):
    assert context_of(value) == context


def test_a_number_too_long_to_be_read_again_is_kept_and_hides_no_secret():
    kept = context_of({"note": f"use {TOKEN}", "n": 10**5000})
    assert "Zm9v" not in kept
    assert "use ***" in json.loads(kept)


def nested(levels):
    value: object = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [100, 300, 900, 100_000])
@pytest.mark.parametrize("leaf", ["x", "password"])
def test_even_without_a_bottom(levels, leaf):
    json.loads(context_of({leaf: nested(levels)}))


def test_at_the_limit_it_is_whole_and_beyond_it_is_cut():
    text = "x" * (CONTEXT_LIMIT - len('{"a":""}'))
    assert sized_context({"a": text}) == (f'{{"a":"{text}"}}', CONTEXT_LIMIT)
    whole = f'{{"a":"{text}x"}}'
    kept, size = sized_context({"a": text + "x"})
    assert size == CONTEXT_LIMIT + 1
    assert json.loads(kept) == {
        "truncated": True,
        "size": CONTEXT_LIMIT + 1,
        "sha256": hashlib.sha256(whole.encode()).hexdigest(),
        "head": whole[: CONTEXT_LIMIT // 2],
    }


@pytest.mark.parametrize("filler", ['"', "\\", "\x01", "ä", "🔑"])
def test_however_it_is_spelled_it_never_exceeds_the_limit(filler):
    kept = context_of({"a": filler * 40_000})
    assert len(kept.encode()) <= CONTEXT_LIMIT
    assert json.loads(kept)["truncated"] is True


def test_a_secret_at_the_cut_is_masked_before_it_is_cut():
    before = "x" * (CONTEXT_LIMIT // 2 - 20)
    assert "Zm9v" not in context_of({"a": f"{before} {TOKEN} {'y' * CONTEXT_LIMIT}"})


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
def test_a_megabyte_made_to_be_slow_is_not_slow(piece):
    text = piece * (1_000_000 // len(piece))
    began = time.process_time()
    context_of({"a": text})
    assert time.process_time() - began < 2


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_a_reference_can_be_read_back(reference):
    assert read_reference(spell_reference(reference)) == reference


def test_references_grow_with_time_and_fit_into_63_bits():
    now = time.time_ns() // 1000
    first, second, late = new_reference(now), new_reference(now + 1000), new_reference(now * 2)
    assert 0 < first < second < late < 2**63
    assert spell_reference(first).startswith("ref-")


def test_references_of_the_same_moment_differ():
    assert len({new_reference(1_769_040_000_000_000) for _ in range(200)}) > 190
