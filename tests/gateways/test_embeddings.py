"""Embeddings from an endpoint with the API of OpenAI."""

from __future__ import annotations

import json

import pytest

from shopfloor.errors import EmbeddingFailed
from shopfloor.gateways.embeddings import OpenAI
from tests.gateways.receiver import start_receiver


def test_embeddings_are_requested_with_the_api_key():
    body = json.dumps({"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]}).encode()
    with start_receiver(body=body) as receiver:
        rows = OpenAI(receiver.url, "key", "small").embed(["a", ""])
        [(method, path, headers, content)] = receiver.requests
    assert rows.round(3).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 1]]
    assert (method, path, headers["authorization"]) == ("POST", "/embeddings", "Bearer key")
    assert json.loads(content) == {"model": "small", "input": ["a", " "]}


@pytest.mark.parametrize(
    ("status", "body", "details"),
    [
        (429, b"", "API rate limit exceeded"),
        (401, b'{"error": {"message": "wrong key"}}', "wrong key"),
        (500, b"oops", "The endpoint answered 500"),
        (302, b"", "The endpoint answered 302"),
        (200, b"oops", "The endpoint's answer cannot be read: "),
        (200, b'{"data": []}', "The endpoint's answer cannot be read: "),
    ],
)
def test_failed_embedding_has_details(status: int, body: bytes, details: str):
    with start_receiver(status, body) as receiver, pytest.raises(EmbeddingFailed) as failed:
        OpenAI(receiver.url, "key", "small").embed(["a"])
    assert str(failed.value.facts["details"]).startswith(details)


def test_unreachable_endpoint_is_a_failed_embedding():
    with pytest.raises(EmbeddingFailed):
        OpenAI("http://127.0.0.1:9", "", "small").embed(["a"])
