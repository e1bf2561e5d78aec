"""Which projectors there are, in the order in which they apply."""

from __future__ import annotations

from projections.access import AccessProjector
from projections.agent_keys import AgentKeysProjector
from projections.aliases import AliasesProjector
from projections.attributes import AttributesProjector
from projections.capabilities.projector import CapabilitiesProjector
from projections.cards.projector import CardsProjector
from projections.contradictions import ContradictionsProjector
from projections.decay import DecayProjector
from projections.derivations import DerivationsProjector
from projections.entity_edges import EntityEdgesProjector
from projections.episodic.consolidation import ConsolidationProjector
from projections.episodic.deltas import DeltasProjector
from projections.episodic.episodes import EpisodesProjector
from projections.erasures import ErasuresProjector
from projections.fact_retractions import FactRetractionsProjector
from projections.facts import FactsProjector
from projections.feedback import FeedbackProjector
from projections.foreign import ForeignFactsProjector
from projections.foreign_ends import ForeignEndsProjector
from projections.gardens import GardensProjector
from projections.keys import KeysProjector
from projections.lexicon import LexiconProjector
from projections.manifests.projector import ManifestsProjector
from projections.peers import PeersProjector
from projections.policies import PoliciesProjector
from projections.projector import Projector
from projections.recall_receipts import RecallReceiptsProjector
from projections.subscriptions import SubscriptionsProjector
from projections.summaries.projector import SummariesProjector
from projections.tombstones import TombstonesProjector
from projections.trust import TrustProjector
from projections.verdicts import VerdictsProjector

PROJECTORS: tuple[Projector, ...] = (
    KeysProjector(),
    AgentKeysProjector(),
    PoliciesProjector(),
    TrustProjector(),
    GardensProjector(),
    AliasesProjector(),
    FactsProjector(),
    AttributesProjector(),
    EntityEdgesProjector(),
    FactRetractionsProjector(),
    ContradictionsProjector(),
    DerivationsProjector(),
    DecayProjector(),
    LexiconProjector(),
    AccessProjector(),
    FeedbackProjector(),
    CardsProjector(),
    VerdictsProjector(),
    RecallReceiptsProjector(),
    CapabilitiesProjector(),
    ErasuresProjector(),
    EpisodesProjector(),
    DeltasProjector(),
    ConsolidationProjector(),
    PeersProjector(),
    ForeignEndsProjector(),
    ForeignFactsProjector(),
    SubscriptionsProjector(),
    SummariesProjector(),
    TombstonesProjector(),
    ManifestsProjector(),
)

IGNORED_KINDS = frozenset({"epoch_started", "node_key_rotated", "replica_promoted"})
"""Known kinds that no table depends on: they speak of the log itself."""

KNOWN_KINDS = IGNORED_KINDS.union(*(projector.kinds for projector in PROJECTORS))
