"""A BERT encoder in ONNX Runtime, from the tensors of a checkpoint.

The graph uses the runtime's fused operators, in float32. Loading joins the three attention products
and adds the embedding of the first segment to those of the places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from engramlog.projections.arrays import F32

HEADS = 12
EPSILON = 1e-12
OPSETS = {"": 17, "com.microsoft": 1}
"""Versions of the operators: ONNX's, and the runtime's fused ones."""
IR_VERSION = 8
ERRORS_ONLY = 3
_runtime = cast("Any", onnxruntime)


class Bert:
    """One encoder on this machine's processor; threads may share it.

    Args:
        tensors: of a BERT checkpoint, by their usual names.
        threads: that one call computes with.
    """

    def __init__(self, tensors: Mapping[str, F32], threads: int) -> None:
        graph = _Graph(tensors)
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


class _Graph:
    """Nodes by the names of their outputs, and ``weights`` by theirs, which stay outside of the
    model's bytes."""

    def __init__(self, tensors: Mapping[str, F32]) -> None:
        self.weights: dict[str, F32] = {}
        self._tensors = tensors
        self._nodes: list[Any] = []
        hidden = self._embedded()
        layers = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
        for number in range(len(layers)):
            hidden = self._layer(f"encoder.layer.{number}.", hidden)
        self._last = hidden

    def model(self) -> bytes:
        """The serialised model."""
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
        own = [f"{at}attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._tensors[f"{part}.weight"] for part in own]).T
        bias = np.concatenate([self._tensors[f"{part}.bias"] for part in own])
        weights = self._weight(f"{at}qkv.weight", weight), self._weight(f"{at}qkv.bias", bias)
        mixed = self._fused("Attention", hidden, *weights, "mask", num_heads=HEADS)
        hidden = self._added(f"{at}attention.output", mixed, hidden)
        wide = self._product(f"{at}intermediate.dense", hidden)
        wide = self._fused("BiasGelu", wide, self._weight(f"{at}intermediate.dense.bias"))
        return self._added(f"{at}output", wide, hidden)

    def _added(self, at: str, wide: str, hidden: str) -> str:
        """``hidden`` plus the dense layer of ``wide``, normalised."""
        inputs = self._product(f"{at}.dense", wide), hidden, *self._norm(f"{at}.LayerNorm")
        bias = self._weight(f"{at}.dense.bias")
        return self._fused("SkipLayerNormalization", *inputs, bias, epsilon=EPSILON)

    def _product(self, name: str, of: str) -> str:
        weight = self._weight(f"{name}.weight", self._tensors[f"{name}.weight"].T)
        return self._node("MatMul", of, weight)

    def _norm(self, name: str) -> tuple[str, str]:
        return self._weight(f"{name}.weight"), self._weight(f"{name}.bias")

    def _weight(self, name: str, values: F32 | None = None) -> str:
        values = self._tensors[name] if values is None else values
        # A copy: the tensors are views of the file, which is then released.
        self.weights[name] = np.array(values, order="C")
        return name

    def _fused(self, kind: str, *inputs: str, **attributes: float) -> str:
        return self._node(kind, *inputs, domain="com.microsoft", **attributes)

    def _node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{kind}.{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name


def _outside(name: str, values: F32) -> onnx.TensorProto:
    """A weight that the session gets apart from the model's bytes, so nothing copies it."""
    tensor = onnx.TensorProto(
        name=name,
        dims=values.shape,
        data_type=onnx.TensorProto.FLOAT,
        data_location=onnx.TensorProto.EXTERNAL,
    )
    tensor.external_data.add(key="location", value="memory")
    return tensor
