"""Embedding models: the local one, or any OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from shopfloor.errors import EmbeddingFailed
from shopfloor.gateways import embedding_model
from shopfloor.gateways.http_client import RequestFailed, send_request

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# numpy is imported where it is first used; see search/vectors.py.
Matrix: TypeAlias = "NDArray[np.float32]"

MAX_TOKENS = 256
_REMOTE_SECONDS = 4.0
_MAX_RESPONSE_BYTES = 64 << 20


class Embeddings(Protocol):
    """A model that turns texts into vectors of length one."""

    name: str

    def ready(self) -> bool:
        """Return whether the model can embed now."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one row for each text."""


class Off:
    """No model: search uses words only."""

    name = "off"

    def ready(self) -> bool:
        return False

    def embed(self, texts: Sequence[str]) -> Matrix:
        raise EmbeddingFailed(details=f"Embeddings are off; {len(texts)} texts were not embedded")


class Local:
    """all-MiniLM-L6-v2 on onnxruntime, loaded on first use."""

    name = embedding_model.NAME

    def __init__(self, cache: Path, threads: int | None = None) -> None:
        self._cache = cache
        # The other half of the cores is for calls.
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self._lock = threading.Lock()
        self._session: Any = None
        self._tokenizer: Any = None

    def ready(self) -> bool:
        return self._session is not None or embedding_model.is_installed(self._cache)

    def embed(self, texts: Sequence[str]) -> Matrix:
        import numpy as np  # noqa: PLC0415 - as in vectors.py

        self._load()
        rows = np.empty((len(texts), embedding_model.DIMENSIONS), dtype=np.float32)
        # One at a time: a batch is padded to its longest text. With eight texts, that took twice the CPU and memory.
        for row, text in enumerate(texts):
            ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
            rows[row] = self._session.run(["vector"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]
        return rows

    def _load(self) -> None:
        with self._lock:
            if self._session is not None:
                return
            import onnxruntime  # noqa: PLC0415 - heavy: loaded with the model
            from tokenizers import Tokenizer  # noqa: PLC0415

            place = embedding_model.folder(self._cache)
            tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
            tokenizer.no_padding()
            tokenizer.enable_truncation(MAX_TOKENS)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            options.log_severity_level = 3
            # onnxruntime's threads would spin for a while after each run, on cores that calls need.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self._tokenizer = tokenizer
            self._session = onnxruntime.InferenceSession(
                str(place / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )


class OpenAI:
    """An OpenAI-compatible endpoint."""

    def __init__(self, base_url: str, key: str, embedding_model: str) -> None:
        self._url = f"{(base_url or 'https://api.openai.com/v1').rstrip('/')}/embeddings"
        self._key = key
        self._model = embedding_model
        self.name = f"openai:{embedding_model}"

    def ready(self) -> bool:
        return True

    def embed(self, texts: Sequence[str]) -> Matrix:
        import numpy as np  # noqa: PLC0415

        body = json.dumps({"model": self._model, "input": [text or " " for text in texts]}).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        answer = self._post(body, headers)
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
            if vectors.shape[0] != len(texts) or vectors.ndim != 2:
                raise ValueError("the number of vectors differs from the number of texts")
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingFailed(details=f"The endpoint's answer cannot be read: {error}") from error
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        whole: Matrix = vectors / np.maximum(lengths, 1e-12)
        return whole

    def _post(self, body: bytes, headers: dict[str, str]) -> Any:
        try:
            response = send_request(
                "POST", self._url, content=body, headers=headers, timeout=_REMOTE_SECONDS, max_bytes=_MAX_RESPONSE_BYTES
            )
        except RequestFailed as error:
            raise EmbeddingFailed(details=str(error)) from error
        if response.status == 429:
            raise EmbeddingFailed(details="API rate limit exceeded")
        if not response.is_success:
            # The endpoint's own message, or its status.
            try:
                message = json.loads(response.body)["error"]["message"]
            except (ValueError, KeyError, TypeError):
                message = None
            raise EmbeddingFailed(details=str(message or f"The endpoint answered {response.status}")[:500])
        try:
            return json.loads(response.body)
        except ValueError as error:
            raise EmbeddingFailed(details=f"The endpoint's answer cannot be read: {error}") from error
