"""Vectors for texts: by the local model, or by any OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from shopfloor.errors import EmbeddingFailed
from shopfloor.gateways import model
from shopfloor.gateways.arrays import Floats, np

Matrix = Floats

TOKENS = 256
BATCH = 8
_REMOTE_SECONDS = 4.0

_hands = ThreadPoolExecutor(4, thread_name_prefix="shopfloor-embed")


class Embeddings(Protocol):
    """Whoever turns texts into vectors of length one."""

    name: str

    def ready(self) -> bool:
        """Whether vectors can be made now."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One row for each text."""


def begin(embeddings: Embeddings, texts: Sequence[str]) -> Future[Matrix]:
    """The rows, some time soon: they are made on another thread."""
    return _hands.submit(embeddings.embed, texts)


class Off:
    """Nobody: search goes by words."""

    name = "off"

    def ready(self) -> bool:
        return False

    def embed(self, texts: Sequence[str]) -> Matrix:
        raise EmbeddingFailed(details=f"Embeddings are off; {len(texts)} texts were not embedded")


class Local:
    """all-MiniLM-L6-v2 by onnxruntime, loaded when it is first needed."""

    name = model.NAME

    def __init__(self, cache: Path, threads: int | None = None) -> None:
        self._cache = cache
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)  # the other half is for calls
        self._lock = threading.Lock()
        self._session: Any = None
        self._tokenizer: Any = None

    def ready(self) -> bool:
        return self._session is not None or model.installed(self._cache)

    def embed(self, texts: Sequence[str]) -> Matrix:
        self._load()
        rows = np.empty((len(texts), model.DIMENSIONS), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # little padding
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            rows[places] = self._run([texts[place] for place in places])
        return rows

    def _run(self, texts: list[str]) -> Matrix:
        encoded = self._tokenizer.encode_batch(texts)
        longest = max(len(each.ids) for each in encoded)
        ids = np.zeros((len(texts), longest), dtype=np.int64)
        mask = np.zeros((len(texts), longest), dtype=np.int64)
        for row, each in enumerate(encoded):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
        vectors: Matrix = self._session.run(["vector"], {"input_ids": ids, "attention_mask": mask})[0]
        return vectors

    def _load(self) -> None:
        with self._lock:
            if self._session is not None:
                return
            import onnxruntime  # noqa: PLC0415 - heavy: loaded with the model
            from tokenizers import Tokenizer  # noqa: PLC0415

            place = model.folder(self._cache)
            tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
            tokenizer.no_padding()
            tokenizer.enable_truncation(TOKENS)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            options.log_severity_level = 3
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self._tokenizer = tokenizer
            self._session = onnxruntime.InferenceSession(
                str(place / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )


class OpenAI:
    """An endpoint that speaks as OpenAI's does."""

    def __init__(self, base_url: str, key: str, model: str) -> None:
        self._url = f"{(base_url or 'https://api.openai.com/v1').rstrip('/')}/embeddings"
        self._key = key
        self._model = model
        self.name = f"openai:{model}"

    def ready(self) -> bool:
        return True

    def embed(self, texts: Sequence[str]) -> Matrix:
        body = json.dumps({"model": self._model, "input": [text or " " for text in texts]}).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        answer = self._post(urllib.request.Request(self._url, body, headers))
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
            if vectors.shape[0] != len(texts) or vectors.ndim != 2:
                raise ValueError("another number of vectors than of texts")
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingFailed(details=f"The endpoint's answer cannot be read: {error}") from error
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        whole: Matrix = vectors / np.maximum(lengths, 1e-12)
        return whole

    def _post(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=_REMOTE_SECONDS) as answer:  # nosec B310: set by the operator
                return json.loads(answer.read(64 << 20))
        except urllib.error.HTTPError as error:
            raise EmbeddingFailed(details=_reason(error)) from error
        except ValueError as error:
            raise EmbeddingFailed(details=f"The endpoint's answer cannot be read: {error}") from error
        except OSError as error:
            raise EmbeddingFailed(details=str(getattr(error, "reason", error))) from error


def _reason(error: urllib.error.HTTPError) -> str:
    """What the endpoint says, or what its status means."""
    try:
        message = json.loads(error.read(65536))["error"]["message"]
    except (OSError, ValueError, KeyError, TypeError):
        message = None
    if error.code == 429:
        return "API rate limit exceeded"
    return str(message or f"The endpoint answered {error.code}")[:500]
