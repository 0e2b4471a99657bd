"""Embeddings from an endpoint with the API of OpenAI."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from shopfloor.errors import EmbeddingFailed
from shopfloor.gateways.embeddings import Local, OpenAI
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


def test_texts_are_embedded_one_at_a_time_without_padding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    # A batch is padded to its longest text, which took twice the CPU and the memory.
    shapes: list[tuple[int, ...]] = []

    def run(outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        assert outputs == ["vector"]
        assert inputs["attention_mask"].all()
        shapes.append(inputs["input_ids"].shape)
        return [np.full((1, 384), inputs["input_ids"].sum(), dtype=np.float32)]

    tokenizer = SimpleNamespace(
        no_padding=lambda: None,
        enable_truncation=lambda length: None,
        encode=lambda text: SimpleNamespace(ids=[1] * len(text.split())),
    )
    monkeypatch.setattr("tokenizers.Tokenizer", SimpleNamespace(from_file=lambda path: tokenizer))
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *options, **more: SimpleNamespace(run=run))
    rows = Local(tmp_path).embed(["one", "a longer text of words"])
    assert shapes == [(1, 1), (1, 5)]
    assert rows[:, 0].tolist() == [1.0, 5.0]
