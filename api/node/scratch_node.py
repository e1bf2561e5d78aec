"""A node that answers from a scratch copy (``engramlog.replay.fork``) of another node."""

from typing import cast

import numpy as np

from engramlog.api.node.node import Node
from engramlog.eventlog.log import WholeLog
from engramlog.projections.arrays import I32
from engramlog.projections.columns.fact_columns import NOWHERE
from engramlog.projections.embedding.current import CurrentEmbeddings
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.embedding.recipe import Space, composed
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.vectors.card_vectors import CardVectors
from engramlog.projections.embedding.worker_status import WorkerStatus
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.replay.fork import Scratch


class SupposedEmbeddings(CurrentEmbeddings):
    """The node's embeddings over the scratch node's facts. Follows and stores no changes."""

    def __init__(self, node: CurrentEmbeddings, semantics: Semantics) -> None:
        self._node = node
        self._semantics = semantics

    @property
    def space(self) -> Space | None:
        return self._node.space

    @property
    def semantics(self) -> Semantics | None:
        return self._semantics

    @property
    def cards(self) -> CardVectors | None:
        return None

    def status(self) -> WorkerStatus | None:
        return self._node.status()

    def close(self) -> None:
        """Does nothing: the node owns the files."""


class ScratchNode(Node):
    """Answers reads as a node does. It owns nothing that ``close`` would close: its maker does."""

    def __init__(self, node: Node, scratch: Scratch) -> None:
        # Reads use only the protocol; the rest of the type is for replicas.
        log = cast("WholeLog", scratch.log)
        super().__init__(
            node.directory, log, scratch.writer, scratch.reader, scratch.clock, node.cursor_key
        )
        self._unclosed.clear()
        self.replica = node.replica
        self._of = node
        self._begun = scratch.reader.pin().count
        self._judge_as_now()
        self.embed_supposed()

    def _judge_as_now(self) -> None:
        """Apply present classifications, reviews and tombstones to the past: rights are always
        present rights. Present settlements as well, because they say what a note is about."""
        image, now = self.reader.image, self._of.reader.pin()
        node_slots = _node_slots(self.reader.pin(), now, self._begun)
        known = np.flatnonzero(node_slots >= 0).astype(np.int32)
        image.facts.arrays["classification"][known] = now.classification[node_slots[known]]
        image.attributes.confidential |= now.confidential
        image.verdicts.hold(known, now.flags(node_slots[known]))
        image.resolutions.learn(self._of.reader.image.resolutions)
        image.tombstones.hide(now.hiding.tombstones)

    def embed_supposed(self) -> None:
        """Embed the supposed facts if the model answers; else recall reports partial vectors."""
        current = self._of.embeddings
        semantics = None if current is None else current.semantics
        if current is None or semantics is None:
            return
        view = self.reader.pin()
        slots: I32 = np.arange(self._begun, view.count, dtype=np.int32)
        confidence = view.confidence(slots, Moment(view.position, 0))
        slots = slots[confidence > semantics.min_confidence]
        rows = self.reader.rows(view.from_position[slots].tolist())
        texts = [composed(row.entity, row.relation, row.value_v) for row in rows]
        node_slots = _node_slots(view, self._of.reader.pin(), self._begun)
        try:
            made = semantics.supposing(node_slots, slots, texts)
        except EmbeddingError:
            made = semantics.supposing(node_slots, slots[:0], [])
        self.embeddings = SupposedEmbeddings(current, made)


def _node_slots(scratch_view: View, node_view: View, count: int) -> I32:
    """The node's slots of our first ``count`` slots; -1 if it has none."""
    wanted = scratch_view.from_position[:count]
    places = np.searchsorted(node_view.from_position, wanted)
    known = np.minimum(places, max(node_view.count - 1, 0))
    same = np.zeros(count, dtype=np.bool_)
    if node_view.count:
        same = (node_view.from_position[known] == wanted) & (node_view.scope[known] != NOWHERE)
    return np.where(same, known, -1).astype(np.int32)
