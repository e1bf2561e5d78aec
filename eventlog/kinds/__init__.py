# ruff: noqa: F403  (re-exports every name of each file)
"""All event payloads: the classes of these files, as one tagged union.

A payload says what happened, in terms that stay true. It never holds values that can be computed
from other events (cards, scores, contradictions, embeddings). Replicated kinds travel to peers in
scope and garden streams; local kinds stay in the node stream. Fields with their default value are
left out of the bytes, so a released default never changes within a schema version. Each kind has
golden bytes in ``fixtures/events``. ``docs/add-an-event-kind.md`` explains how to add a kind.
"""

from typing import Any, Union

from engramlog.eventlog.kinds.conversations import *
from engramlog.eventlog.kinds.declarations import *
from engramlog.eventlog.kinds.facts import *
from engramlog.eventlog.kinds.judgements import *
from engramlog.eventlog.kinds.node import *
from engramlog.eventlog.kinds.payload import *
from engramlog.eventlog.kinds.payload import Payload
from engramlog.eventlog.kinds.peers import *
from engramlog.eventlog.kinds.rights import *

_FILES = ("facts", "judgements", "conversations", "declarations", "rights", "peers", "node")


def _place(shape: type[Payload]) -> int:
    return _FILES.index(shape.__module__.rpartition(".")[2])


KINDS: dict[str, type[Payload]] = {
    str(shape.__struct_config__.tag): shape
    for shape in sorted(Payload.__subclasses__(), key=_place)
}
"""Payloads by kind."""
AnyPayload: Any = Union[tuple(KINDS.values())]  # noqa: UP007
"""Their union, for decoders."""

SCHEMA_VERSIONS: dict[str, int] = {kind: shape.version for kind, shape in KINDS.items()}
"""The current version of each kind; ``codec.UPCASTERS`` reads older ones."""

REPLICATED: frozenset[str] = frozenset(kind for kind, shape in KINDS.items() if shape.replicated)
"""Kinds for scope and garden streams; all others stay in the node's stream (``fact_erased`` too,
when it names events of that stream)."""
