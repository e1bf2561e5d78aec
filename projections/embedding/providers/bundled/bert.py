"""A BERT encoder in ONNX Runtime, from the tensors of a checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnxruntime

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.providers.bundled.bert_graph import (
    FloatGraph,
    Int8Graph,
    multiplies_signed_bytes,
)

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
