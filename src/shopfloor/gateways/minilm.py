"""The ONNX graph of the local model, a BERT, built from its weights alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file

LAYERS, HEADS, WIDTH, POSITIONS = 6, 12, 384, 512


def build(weights: Path, target: Path) -> None:
    """Build the graph with eight-bit weights, in the form that onnxruntime runs."""
    plain = target.with_suffix(".plain.onnx")
    onnx.save(_Graph(load_file(str(weights))).build(), str(plain))
    # It would log a hint to optimize the graph first, which has nothing to optimize.
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        quantize_dynamic(plain, target, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"], per_channel=True)
    finally:
        root.setLevel(level)
    plain.unlink()


class _Graph:
    """BERT as ONNX: token ids and mask in, one normalised vector for each text out."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self._weights = weights
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._count = 0

    def build(self) -> Any:
        ids, mask = "input_ids", "attention_mask"
        wide = self._op("Cast", mask, to=TensorProto.FLOAT)
        hidden = self._embeddings(ids)
        # Added to the scores before the softmax, so that padding gets a share of zero.
        blocked = self._op("Mul", self._op("Sub", self._value(1.0), wide), self._value(-1e9))
        blocked = self._op("Unsqueeze", blocked, self._constant("axes12", np.array([1, 2], dtype=np.int64)))
        for number in range(LAYERS):
            layer = f"encoder.layer.{number}"
            attended = self._attention(f"{layer}.attention", hidden, blocked)
            inner = self._op("Gelu", self._linear(f"{layer}.intermediate.dense", attended))
            out = self._linear(f"{layer}.output.dense", inner)
            hidden = self._norm(f"{layer}.output.LayerNorm", self._op("Add", out, attended))
        # The model was trained with the mean of the tokens, without padding, as a text's vector.
        weight = self._op("Unsqueeze", wide, self._constant("axis2", np.array([2], dtype=np.int64)))
        axis1 = self._constant("axis1", np.array([1], dtype=np.int64))
        summed = self._op("ReduceSum", self._op("Mul", hidden, weight), axis1, keepdims=0)
        count = self._op("ReduceSum", weight, axis1, keepdims=0)
        self._op("LpNormalization", self._op("Div", summed, count), output="vector", axis=1, p=2)
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in (ids, mask)]
        outputs = [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["texts", WIDTH])]
        graph = helper.make_graph(self._nodes, "all-MiniLM-L6-v2", inputs, outputs, list(self._constants.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    def _embeddings(self, ids: str) -> str:
        words = self._words(ids)
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

    def _words(self, ids: str) -> str:
        """Look up the vectors of the tokens, which have eight bits per number and one scale per token.

        With 32 bits, the table was 47 of the 59 MB of the graph, and onnxruntime held it twice while it loaded.
        """
        table = self._weights["embeddings.word_embeddings.weight"]
        scales = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-12) / 127.0
        rounded = np.rint(table / scales).astype(np.int8)
        rows = self._op("Gather", self._constant("words", rounded), ids)
        scale = self._op("Gather", self._constant("word_scales", scales.astype(np.float32)), ids)
        return self._op("Mul", self._op("Cast", rows, to=TensorProto.FLOAT), scale)

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
        weight = self._constant(f"{name}.transposed", np.ascontiguousarray(self._weights[f"{name}.weight"].T))
        return self._op("Add", self._op("MatMul", given, weight), self._weight(f"{name}.bias"))

    def _norm(self, name: str, given: str) -> str:
        scale, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._op("LayerNormalization", given, scale, bias, axis=-1, epsilon=1e-12)

    def _weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _value(self, number: float) -> str:
        return self._constant(f"value{number}", np.array(number, dtype=np.float32))

    def _ints(self, name: str, *numbers: int) -> str:
        return self._constant(name, np.array(numbers, dtype=np.int64))

    def _constant(self, name: str, value: Any) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(value, name)
        return name

    def _op(self, kind: str, *given: str, output: str | None = None, **attributes: Any) -> str:
        self._count += 1
        name = output or f"{kind}_{self._count}"
        self._nodes.append(helper.make_node(kind, given, [name], name=f"node_{self._count}", **attributes))
        return name
