# ruff: noqa: F403  (re-exports every name of each file)
"""All event payloads, as one tagged union.

A payload says what happened, in terms that stay true. It never holds values that can be computed
from other events (cards, scores, contradictions, embeddings). Replicated kinds travel to peers in
scope and garden streams; local kinds stay in the node stream. Fields with their default value are
left out of the bytes, so a released default never changes within a schema version. Each kind has
golden bytes in ``fixtures/events``. ``docs/add-an-event-kind.md`` explains how to add a kind.
"""

from typing import TypeAlias, get_args

from engramlog.eventlog.kinds.conversations import *
from engramlog.eventlog.kinds.conversations import ConversationPayload
from engramlog.eventlog.kinds.declarations import *
from engramlog.eventlog.kinds.declarations import DeclarationPayload
from engramlog.eventlog.kinds.facts import *
from engramlog.eventlog.kinds.facts import FactPayload
from engramlog.eventlog.kinds.judgements import *
from engramlog.eventlog.kinds.judgements import JudgementPayload
from engramlog.eventlog.kinds.node import *
from engramlog.eventlog.kinds.node import NodePayload
from engramlog.eventlog.kinds.payload import *
from engramlog.eventlog.kinds.payload import Payload
from engramlog.eventlog.kinds.peers import *
from engramlog.eventlog.kinds.peers import PeerPayload
from engramlog.eventlog.kinds.rights import *
from engramlog.eventlog.kinds.rights import RightsPayload

AnyPayload: TypeAlias = (
    FactPayload
    | JudgementPayload
    | ConversationPayload
    | DeclarationPayload
    | RightsPayload
    | PeerPayload
    | NodePayload
)

KINDS: dict[str, type[Payload]] = {
    str(shape.__struct_config__.tag): shape for shape in get_args(AnyPayload)
}
"""Payloads by kind."""

SCHEMA_VERSIONS: dict[str, int] = {kind: shape.version for kind, shape in KINDS.items()}
"""The current version of each kind; ``codec.UPCASTERS`` reads older ones."""

REPLICATED: frozenset[str] = frozenset(kind for kind, shape in KINDS.items() if shape.replicated)
"""Kinds for scope and garden streams; all others stay in the node's stream (``fact_erased`` too,
when it names events of that stream)."""
