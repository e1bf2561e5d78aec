"""A BERT encoder in ONNX Runtime, from the tensors of a checkpoint: its graph, with the runtime's
fused operators.

Loading joins the three attention products and adds the embedding of the first segment to those of
the places.
"""

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import onnx
from onnx import helper

from engramlog.projections.arrays import F32

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # by default it reports each use to its makers
import onnxruntime

HEADS = 12
EPSILON = 1e-12
OPSETS = {"": 17, "com.microsoft": 1}
"""Versions of the operators: ONNX's, and the runtime's fused ones."""
IR_VERSION = 8
INT8_MAX = 127
UINT8_ZERO = 128
"""The unsigned byte that stands for 0."""
Weight: TypeAlias = np.ndarray[Any, Any]
"""Numbers of a type in ``_TYPES``."""
_TYPES: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): onnx.TensorProto.FLOAT,
    np.dtype(np.int8): onnx.TensorProto.INT8,
    np.dtype(np.uint8): onnx.TensorProto.UINT8,
}


class FloatGraph:
    """The encoder in float32: nodes by the names of their outputs, and ``weights`` by theirs, which
    stay outside of the model's bytes."""

    def __init__(self, tensors: Mapping[str, F32]) -> None:
        self.weights: dict[str, Weight] = {}
        self._tensors = tensors
        self._nodes: list[Any] = []
        hidden = self._embedded()
        layers = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
        for number in range(len(layers)):
            hidden = self._layer(f"encoder.layer.{number}.", hidden)
        self._last = hidden

    def model(self) -> bytes:
        inputs = [
            helper.make_tensor_value_info("tokens", onnx.TensorProto.INT64, ["texts", "length"]),
            helper.make_tensor_value_info("places", onnx.TensorProto.INT64, ["length"]),
            helper.make_tensor_value_info("mask", onnx.TensorProto.INT32, ["texts", "length"]),
        ]
        hidden = [helper.make_tensor_value_info(self._last, onnx.TensorProto.FLOAT, None)]
        named = [_outside(name, each) for name, each in self.weights.items()]
        graph = helper.make_graph(self._nodes, "bert", inputs, hidden, named)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model: Any = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return model.SerializeToString()

    def _embedded(self) -> str:
        places = self._tensors["embeddings.position_embeddings.weight"]
        places = places + self._tensors["embeddings.token_type_embeddings.weight"][0]
        words = self._weight("embeddings.word_embeddings.weight")
        word = self._node("Gather", words, "tokens")
        place = self._node("Gather", self._weight("places.weight", places), "places")
        inputs = self._node("Add", word, place), *self._norm("embeddings.LayerNorm")
        return self._node("LayerNormalization", *inputs, epsilon=EPSILON)

    def _layer(self, at: str, hidden: str) -> str:
        hidden = self._added(f"{at}attention.output", self._mixed(at, hidden), hidden)
        wide = self._product(f"{at}intermediate.dense", hidden)
        wide = self._fused("BiasGelu", wide, self._weight(f"{at}intermediate.dense.bias"))
        return self._added(f"{at}output", wide, hidden)

    def _mixed(self, at: str, hidden: str) -> str:
        """What attention makes of the tokens."""
        names = [f"{at}attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._tensors[f"{part}.weight"] for part in names]).T
        bias = np.concatenate([self._tensors[f"{part}.bias"] for part in names])
        weights = self._weight(f"{at}qkv.weight", weight), self._weight(f"{at}qkv.bias", bias)
        return self._fused("Attention", hidden, *weights, "mask", num_heads=HEADS)

    def _added(self, at: str, wide: str, hidden: str) -> str:
        """``hidden`` plus the dense layer of ``wide``, normalised."""
        inputs = self._product(f"{at}.dense", wide), hidden, *self._norm(f"{at}.LayerNorm")
        bias = self._weight(f"{at}.dense.bias")
        return self._fused("SkipLayerNormalization", *inputs, bias, epsilon=EPSILON)

    def _product(self, name: str, inputs: str) -> str:
        weight = self._weight(f"{name}.weight", self._tensors[f"{name}.weight"].T)
        return self._node("MatMul", inputs, weight)

    def _norm(self, name: str) -> tuple[str, str]:
        return self._weight(f"{name}.weight"), self._weight(f"{name}.bias")

    def _weight(self, name: str, values: Weight | None = None) -> str:
        values = self._tensors[name] if values is None else values
        # A copy: the tensors are views of the file, which is then released.
        self.weights[name] = np.array(values, order="C")
        return name

    def _fused(self, kind: str, *inputs: str, **attributes: float) -> str:
        return self._node(kind, *inputs, domain="com.microsoft", **attributes)

    def _node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self._nodes_of(kind, 1, *inputs, domain=domain, **attributes)[0]

    def _nodes_of(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"{kind}.{len(self._nodes)}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names


class Int8Graph(FloatGraph):
    """The dense products multiply 8-bit integers: half the time, for cosines above 0.99 with
    the float32 vectors.

    A column of the weights and a row of the inputs (one token) are each scaled by their greatest
    number. So a token's numbers do not depend on the other texts of a batch. Everything between the
    products stays float32. ``signed``: whether the weights are signed bytes. The runtime multiplies
    unsigned by signed bytes fastest, but sums pairs in 16 bits where the processor lacks an
    instruction, and cuts large sums off. With unsigned weights it never does.
    """

    def __init__(self, tensors: Mapping[str, F32], *, signed: bool) -> None:
        self._signed = signed
        super().__init__(tensors)

    def _mixed(self, at: str, hidden: str) -> str:
        names = [f"{at}attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._tensors[f"{part}.weight"] for part in names])
        bias = np.concatenate([self._tensors[f"{part}.bias"] for part in names])
        wide = self._int8_product(f"{at}qkv", hidden, weight)
        parts = self._nodes_of("Split", 3, wide, axis=-1)
        inputs = (*parts, self._weight(f"{at}qkv.bias", bias), "mask")
        return self._fused("MultiHeadAttention", *inputs, num_heads=HEADS)

    def _product(self, name: str, inputs: str) -> str:
        return self._int8_product(name, inputs, self._tensors[f"{name}.weight"])

    def _int8_product(self, name: str, inputs: str, weight: F32) -> str:
        """The product with a weight of (outputs, inputs)."""
        one = self._constant("one", np.float32(1))
        middle = self._constant("middle", np.uint8(UINT8_ZERO))
        peaks = self._node("ReduceMax", self._node("Abs", inputs), axes=[-1], keepdims=1)
        step = self._constant("step", np.float32(1 / INT8_MAX))
        scales = self._node("Mul", peaks, step)
        rows = self._node("QuantizeLinear", self._node("Div", inputs, scales), one, middle)
        column_scales = np.abs(weight).max(axis=1) / np.float32(INT8_MAX)
        columns = np.rint(weight / column_scales[:, None]).T
        if self._signed:
            columns, zero = columns.astype(np.int8), self._constant("zero", np.int8(0))
        else:
            columns, zero = (columns + UINT8_ZERO).astype(np.uint8), middle
        whole = self._fused(
            "MatMulIntegerToFloat",
            rows,
            self._weight(f"{name}.int8", columns),
            one,
            self._weight(f"{name}.scales", column_scales),
            middle,
            zero,
        )
        return self._node("Mul", whole, scales)

    def _constant(self, name: str, value: np.generic) -> str:
        return self._weight(name, np.asarray(value))


def multiplies_signed_bytes() -> bool:
    """Whether this processor sums products of unsigned and signed bytes in 32 bits: one that is no
    x86, or that has VNNI."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return True
    try:
        return "vnni" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def _outside(name: str, values: Weight) -> onnx.TensorProto:
    """A weight that the session gets apart from the model's bytes, so nothing copies it."""
    tensor = onnx.TensorProto(
        name=name,
        dims=values.shape,
        data_type=_TYPES[values.dtype],
        data_location=onnx.TensorProto.EXTERNAL,
    )
    tensor.external_data.add(key="location", value="memory")
    return tensor


ERRORS_ONLY = 3
_runtime = cast("Any", onnxruntime)


class Bert:
    """One encoder on this machine's processor; threads may share it.

    Args:
        tensors: of a BERT checkpoint, by their usual names.
        threads: that one call computes with.
        int8: whether dense products are of 8-bit integers (see ``Int8Graph``).
    """

    def __init__(self, tensors: Mapping[str, F32], threads: int, *, int8: bool) -> None:
        if int8:
            graph = Int8Graph(tensors, signed=multiplies_signed_bytes())
        else:
            graph = FloatGraph(tensors)
        options = _runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = ERRORS_ONLY
        # A waiting thread that spins takes the processor from the node.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # The session reads these arrays where they are, so they must stay.
        self._weights = [
            _runtime.OrtValue.ortvalue_from_numpy(each) for each in graph.weights.values()
        ]
        options.add_external_initializers([*graph.weights], self._weights)
        self._session: Any = _runtime.InferenceSession(
            graph.model(), options, providers=["CPUExecutionProvider"]
        )

    def vectors(self, texts: Sequence[Sequence[int]]) -> F32:
        """Unit vectors of texts given as token numbers: the mean of each text's tokens. None may be
        empty, or longer than the checkpoint's places."""
        longest = max(map(len, texts))
        tokens = np.zeros((len(texts), longest), dtype=np.int64)
        mask = np.zeros((len(texts), longest), dtype=np.int32)
        for row, text in enumerate(texts):
            tokens[row, : len(text)] = text
            mask[row, : len(text)] = 1
        inputs = {"tokens": tokens, "places": np.arange(longest), "mask": mask}
        hidden = cast("F32", self._session.run(None, inputs)[0])
        sums: F32 = np.einsum("btw,bt->bw", hidden, mask.astype(np.float32))
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        return sums
