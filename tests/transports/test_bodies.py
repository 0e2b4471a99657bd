"""JSON bodies: their structure is limited, and no key of an object may be named twice."""

from __future__ import annotations

import json
import time

import pytest

from shopfloor.errors import InvalidInput
from shopfloor.transports.bodies import MAX_VALUES, parse_json


@pytest.mark.parametrize(
    "body",
    [
        b'{"agentId": "a", "agentId": "b"}',
        b'{"input": {"a": 1, "a": 1}}',
        b'[{"a": ": \\" :", "a": 2}]',
        b'{"a\\u0062": 1, "ab": 2}',
    ],
)
def test_key_that_is_named_twice_is_rejected(body: bytes):
    with pytest.raises(InvalidInput, match="names a key of an object twice"):
        parse_json(body)


@pytest.mark.parametrize(
    "value", [{"a": "x: y", "b": {"a": ["::", {"a:": '":'}]}}, [], {}, "a:b", [{"a": 1}, {"a": 1}], {"\\": ":\\"}]
)
def test_colons_in_texts_are_not_keys(value: object):
    assert parse_json(json.dumps(value).encode()) == value


def test_huge_list_is_rejected_before_it_is_built():
    body = json.dumps({"toolName": "x", "input": {"to": ["a"] * 200_000}}).encode()
    began = time.process_time()
    with pytest.raises(InvalidInput, match=f"JSON must not have more than {MAX_VALUES} values"):
        parse_json(body)
    assert time.process_time() - began < 1


def test_text_with_many_commas_is_accepted():
    body = {"input": {"body": "," * 60_000}}
    assert parse_json(json.dumps(body).encode()) == body
