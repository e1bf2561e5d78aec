"""The reading side of a node: the memory image, row look-ups, keys and declarations."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    AgentKeySet,
    AliasSet,
    CapabilityIssued,
    CapabilityRevoked,
    DecayPolicy,
    EmbeddingModelPinned,
    FactErased,
    GardenCreated,
    GardenDeleted,
    GardenMemberSet,
    KeyIssued,
    KeyRevoked,
    PeerDeclared,
    PeerStateSet,
    ProfileSet,
    TrustPolicy,
)
from engramlog.projections.columns.fact_columns import cid_number
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.partial_conflicts import PartialConflicts
from engramlog.projections.image.view import View
from engramlog.projections.tables.database import ReaderPool
from engramlog.projections.tables.declared.agent_keys import AgentKeyRow, load_agent_keys
from engramlog.projections.tables.declared.aliases import AliasBook, load_aliases
from engramlog.projections.tables.declared.capabilities import load_capabilities, load_revocations
from engramlog.projections.tables.declared.capability_ring import CapabilityRing
from engramlog.projections.tables.declared.garden_directory import (
    GardenDirectory,
    QuarantineReview,
    load_gardens,
    reviews_of,
)
from engramlog.projections.tables.declared.keys import KeyRing, load_keys
from engramlog.projections.tables.declared.manifests import ManifestRow, load_manifest
from engramlog.projections.tables.declared.policies import (
    InstalledProfiles,
    decay_policies,
    load_profiles,
    pinned_model,
    set_valued_relations,
)
from engramlog.projections.tables.declared.subscriptions import SubscriptionRow, load_subscriptions
from engramlog.projections.tables.declared.trust import (
    TrustSetting,
    trust_policy,
    trust_setting,
    trust_settings,
)
from engramlog.projections.tables.digest import Digests, compute_digests, stream_digests
from engramlog.projections.tables.erasing import History
from engramlog.projections.tables.facts.cards import CardKey, find_card
from engramlog.projections.tables.facts.erasures import (
    ErasureReceipt,
    ErasureRow,
    LegalHold,
    erased_between,
    erasure_of,
    erasures_after,
    find_erasure,
    find_erasure_receipt,
    legal_holds,
    list_erasures,
    naming_positions,
    unclean,
)
from engramlog.projections.tables.facts.fact_rows import FactRow, fetch, said_after
from engramlog.projections.tables.facts.recall_receipts import (
    ReceiptRow,
    find_receipt,
    list_receipts,
    receipt_positions,
)
from engramlog.projections.tables.facts.tombstones import (
    TombstoneRevocationRow,
    TombstoneRow,
    changes_after,
    find_tombstone,
    list_tombstones,
    revocations_of,
    standing_tombstones,
    tombstones_of,
)
from engramlog.projections.tables.facts.verdicts import ContentReview, codes_at
from engramlog.projections.tables.facts.verdicts import reviews_of as content_reviews_of
from engramlog.projections.tables.peers.peers import (
    EquivocationEvidence,
    PeerRow,
    PeerStream,
    load_evidence,
    load_peer_streams,
    load_peers,
)
from engramlog.projections.tables.peers.protocol_facts import (
    ForeignCursor,
    foreign_cursor,
    foreign_refusals,
    foreign_settled,
)
from engramlog.projections.tables.peers.refused_events import (
    RefusedRow,
    count_refused,
    refused_of,
)
from engramlog.projections.tables.peers.remote_retractions import erased_elsewhere, waiting_claims
from engramlog.projections.tables.store import unknown_events

_log = logging.getLogger(__name__)


class Reader:
    """Synchronous queries; safe from any thread. ``followers`` are called with published events,
    in the writer's thread. ``history``: the log, where it is at hand."""

    def __init__(self, link: Path, image: MemoryImage, history: History | None = None) -> None:
        self.image = image
        self.history = history
        self.partial = PartialConflicts()
        self.pool = ReaderPool(link, image.tail.settle)
        self.keys = KeyRing()
        self.followers: list[Callable[[Sequence[Recorded]], None]] = []
        self.agent_keys: dict[str, AgentKeyRow] = {}
        self.gardens = GardenDirectory()
        self.capabilities = CapabilityRing()
        self.aliases = AliasBook()
        self._profiles = InstalledProfiles()
        self.known_peers: list[PeerRow] = []
        self.refresh_keys()
        self.refresh_peers()
        self.refresh_capabilities()
        self.refresh_gardens()
        self.refresh_aliases()
        self.refresh_profiles()

    def refresh_keys(self) -> None:
        """Load the key ring and the agents' keys anew."""
        with self.pool.connection() as db:
            self.keys = KeyRing(load_keys(db))
            self.agent_keys = load_agent_keys(db)

    def refresh_capabilities(self) -> None:
        """Load issued capabilities and revocations anew."""
        with self.pool.connection() as db:
            self.capabilities = CapabilityRing(load_capabilities(db), load_revocations(db))

    def refresh_peers(self) -> None:
        """Load the peers anew."""
        self.known_peers = self.peers()

    def refresh_gardens(self) -> None:
        """Load the gardens and their members anew."""
        with self.pool.connection() as db:
            self.gardens = GardenDirectory(load_gardens(db))

    def refresh_aliases(self) -> None:
        """Load the aliases anew."""
        with self.pool.connection() as db:
            self.aliases = AliasBook(load_aliases(db))

    def refresh_profiles(self) -> None:
        """Load the installed recall profiles anew."""
        with self.pool.connection() as db:
            self._profiles = load_profiles(db)

    def committed(self, events: Sequence[Recorded]) -> None:
        """Take note of events that were just published."""
        kinds = {type(event.payload) for event in events}
        if not kinds.isdisjoint((KeyIssued, KeyRevoked, AgentKeySet)):
            self.refresh_keys()
        if not kinds.isdisjoint((GardenCreated, GardenMemberSet, GardenDeleted)):
            self.refresh_gardens()
        if not kinds.isdisjoint((CapabilityIssued, CapabilityRevoked)):
            self.refresh_capabilities()
        if not kinds.isdisjoint((PeerDeclared, PeerStateSet)):
            self.refresh_peers()
        if AliasSet in kinds:
            self.refresh_aliases()
        if ProfileSet in kinds:
            self.refresh_profiles()
        if FactErased in kinds:
            self.refresh_aliases()
        for follow in self.followers:
            try:
                follow(events)
            except Exception:  # what is written stays written, even if a follower fails
                _log.exception("a follower of the log")

    def card_key(self, card_id: str) -> CardKey | None:
        """Whose card has this id, readable or not: apply the authorization yourself."""
        with self.pool.connection() as db:
            return find_card(db, card_id)

    def pin(self) -> View:
        """A view of the memory image as last published."""
        return View(self.image)

    def rows(self, positions: Sequence[int]) -> list[FactRow]:
        """Rows of the facts asserted at ``positions``, in that order."""
        if not len(positions):
            return []
        with self.pool.connection(max(positions)) as db:
            return fetch(db, positions)

    def slot_of(self, fact_id: str) -> int | None:
        """The slot of a fact id, readable or not: apply the authorization yourself."""
        return self.image.facts.slot_of.get(fact_id)

    def slots_of_cid(self, cid: str) -> list[int]:
        """Slots of the facts with this content id, oldest first."""
        image = self.image
        slots = image.facts.by_cid.slots(cid_number(cid), image.published)
        positions = image.facts.arrays["from_position"][slots].tolist()
        wanted = {row.from_position for row in self.rows(positions) if row.cid == cid}
        return [
            slot
            for slot, position in zip(slots.tolist(), positions, strict=True)
            if position in wanted
        ]

    def decay_policies(self, position: int) -> list[DecayPolicy]:
        """Decay policies in force at a position."""
        with self.pool.connection() as db:
            return decay_policies(db, position)

    def set_valued(self, position: int) -> list[str]:
        """Declared set-valued relations at a position."""
        with self.pool.connection() as db:
            return set_valued_relations(db, position)

    def profiles(self, position: int) -> dict[str, dict[str, Any]]:
        """Installed recall profiles at a position."""
        return self._profiles.at(position)

    def reviews(self, fact_ids: Sequence[str]) -> dict[str, QuarantineReview]:
        """Reviews of quarantined facts, by fact id."""
        with self.pool.connection() as db:
            return reviews_of(db, json.dumps(list(fact_ids)))

    def pinned_model(self, position: int) -> EmbeddingModelPinned | None:
        """The embedding model in force at a position."""
        with self.pool.connection() as db:
            return pinned_model(db, position)

    def trust_policy(self, position: int) -> TrustPolicy:
        """How trust in sources was computed at a position."""
        with self.pool.connection() as db:
            return trust_policy(db, position)

    def trust_settings(self, position: int, after: str, limit: int) -> list[TrustSetting]:
        """What operators had set of sources by a position, by source, from behind ``after``."""
        with self.pool.connection() as db:
            return trust_settings(db, position, after=after, limit=limit)

    def trust_setting(self, source: str, position: int) -> TrustSetting | None:
        """What operators had set of one source by a position."""
        with self.pool.connection() as db:
            return trust_setting(db, source, position)

    def codes(self, positions: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """What the sanitizer found in the facts asserted at ``positions``, where anything."""
        if not len(positions):
            return {}
        with self.pool.connection() as db:
            return codes_at(db, positions)

    def content_reviews(self, facts: Sequence[str]) -> dict[str, ContentReview]:
        """The decisions that stand on facts, by id."""
        with self.pool.connection() as db:
            return content_reviews_of(db, facts)

    def receipt(self, receipt_id: str) -> ReceiptRow | None:
        """The position of a recall's receipt, readable or not."""
        with self.pool.connection() as db:
            return find_receipt(db, receipt_id)

    def receipts(self, principal: str | None, before: int, limit: int) -> list[ReceiptRow]:
        """Receipts recorded before a position, newest first; of one principal, or of all."""
        with self.pool.connection() as db:
            return list_receipts(db, principal, before, limit)

    def stream_digests(self) -> dict[str, str]:
        """What every stream's content comes to, by stream."""
        with self.pool.connection() as db:
            return stream_digests(db)

    def peers(self) -> list[PeerRow]:
        """All peers, oldest first."""
        with self.pool.connection() as db:
            return load_peers(db)

    def peer_streams(self) -> list[PeerStream]:
        """Every stream of peers that was replayed or held."""
        with self.pool.connection() as db:
            return load_peer_streams(db)

    def refused_events(self, node_id: str, limit: int) -> list[RefusedRow]:
        """The newest events of a peer that mean nothing here."""
        with self.pool.connection() as db:
            return refused_of(db, node_id, limit)

    def count_refused(self) -> int:
        """Events of all peers that mean nothing here."""
        with self.pool.connection() as db:
            return count_refused(db)

    def erased_elsewhere(self, events: Collection[bytes], origin: str, own: str) -> set[bytes]:
        """Those of the events of node ``origin`` whose payloads may be missing (``own``: this
        node)."""
        with self.pool.connection() as db:
            return erased_elsewhere(db, events, origin, own)

    def peer_evidence(self) -> list[EquivocationEvidence]:
        """Contradictions of peers, oldest first."""
        with self.pool.connection() as db:
            return load_evidence(db)

    def manifest(self, entity_uri: str) -> ManifestRow | None:
        """The newest manifest of an entity, expired or not."""
        with self.pool.connection() as db:
            return load_manifest(db, entity_uri)

    def unknown_events(self) -> list[tuple[str, int, int]]:
        """Kind, version and number of the events that later releases made."""
        with self.pool.connection() as db:
            return unknown_events(db)

    def waiting_claims(self) -> int:
        """Claims of other nodes about the end of facts that have not taken effect."""
        with self.pool.connection() as db:
            return waiting_claims(db)

    def foreign_cursor(self, node_id: str) -> ForeignCursor | None:
        """How far a node that speaks only the protocol was pulled."""
        with self.pool.connection() as db:
            return foreign_cursor(db, node_id)

    def foreign_settled(self, node_id: str, names: Sequence[str]) -> frozenset[str]:
        """Those of a foreign node's fact ids that were taken or refused."""
        with self.pool.connection() as db:
            return foreign_settled(db, node_id, names)

    def foreign_refusals(self, node_id: str, limit: int) -> list[tuple[str, str, int]]:
        """(foreign id, code, position) of what was refused of a node, newest first."""
        with self.pool.connection() as db:
            return foreign_refusals(db, node_id, limit)

    def erasure(self, erasure_id: str) -> ErasureRow | None:
        """An erasure, whether it is clean or not."""
        with self.pool.connection() as db:
            return find_erasure(db, erasure_id)

    def erasures(self, before: int, limit: int) -> list[ErasureRow]:
        """Erasures begun before a position, newest first."""
        with self.pool.connection() as db:
            return list_erasures(db, before, limit)

    def erasure_receipt(self, erasure_id: str) -> ErasureReceipt | None:
        """The receipt of an erasure, once everything is clean."""
        with self.pool.connection() as db:
            return find_erasure_receipt(db, erasure_id)

    def erasure_of(self, fact_id: str) -> str | None:
        """The erasure that took a fact, if one did: for those who may know."""
        with self.pool.connection() as db:
            return erasure_of(db, fact_id)

    def erased_between(self, after: int, until: int, limit: int) -> list[tuple[str, str, int]]:
        """(fact id, erasure id, position) of facts erased between positions."""
        with self.pool.connection() as db:
            return erased_between(db, after, until, limit)

    def unclean(self) -> list[str]:
        """Erasures without a receipt, oldest first."""
        with self.pool.connection() as db:
            return unclean(db)

    def erasures_after(self, position: int) -> list[str]:
        """Erasures with an event behind a position, oldest first."""
        with self.pool.connection() as db:
            return erasures_after(db, position)

    def naming_positions(self, erasure_id: str) -> list[int]:
        """Where the events of an erasure stand in the log."""
        with self.pool.connection() as db:
            return naming_positions(db, erasure_id)

    def legal_holds(self) -> list[LegalHold]:
        """Everything that is held now, oldest first."""
        with self.pool.connection() as db:
            return legal_holds(db)

    def receipt_positions(self) -> list[int]:
        """Where receipts of recalls stand in the log, in order."""
        with self.pool.connection() as db:
            return receipt_positions(db)

    def fact_pages(self) -> Iterator[list[tuple[str, str, str, str]]]:
        """(id, entity, relation, value) of every fact there is, page by page."""
        after = 0
        while True:
            with self.pool.connection() as db:
                rows = said_after(db, after)
            if not rows:
                return
            yield [(row[1], row[2], row[3], row[4]) for row in rows]
            after = rows[-1][0]

    def subscriptions(self) -> list[SubscriptionRow]:
        """All subscriptions, oldest first."""
        with self.pool.connection() as db:
            return load_subscriptions(db)

    def tombstone(self, tombstone_id: str) -> TombstoneRow | None:
        """A tombstone, whether it stands or not."""
        with self.pool.connection() as db:
            return find_tombstone(db, tombstone_id)

    def tombstones_of(self, entity: str) -> tuple[list[TombstoneRow], list[TombstoneRevocationRow]]:
        """Every tombstone of an entity and every revocation of one, oldest first."""
        with self.pool.connection() as db:
            return tombstones_of(db, entity), revocations_of(db, entity)

    def tombstones(self, before: int, limit: int) -> list[TombstoneRow]:
        """Tombstones set before a position, newest first."""
        with self.pool.connection() as db:
            return list_tombstones(db, before, limit)

    def standing_tombstones(self) -> list[TombstoneRow]:
        """Every tombstone that stands, oldest first."""
        with self.pool.connection() as db:
            return standing_tombstones(db)

    def tombstone_changes(
        self, after: int, limit: int
    ) -> list[tuple[int, TombstoneRow | TombstoneRevocationRow]]:
        """What this node said of tombstones from behind a position, with positions."""
        with self.pool.connection() as db:
            return changes_after(db, after, limit)

    def digests(self) -> Digests:
        """Digests of the tables as they stand."""
        with self.pool.connection() as db:
            return compute_digests(db)

    def close(self) -> None:
        self.pool.close()
