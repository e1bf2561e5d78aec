"""All projectors, in the order in which they apply."""

from engramlog.projections.tables.conflicts.contradictions import ContradictionsProjector
from engramlog.projections.tables.conflicts.denials import DenialsProjector
from engramlog.projections.tables.conflicts.resolutions import ResolutionsProjector
from engramlog.projections.tables.declared.agent_keys import AgentKeysProjector
from engramlog.projections.tables.declared.aliases import AliasesProjector
from engramlog.projections.tables.declared.capabilities import CapabilitiesProjector
from engramlog.projections.tables.declared.gardens import GardensProjector
from engramlog.projections.tables.declared.keys import KeysProjector
from engramlog.projections.tables.declared.manifests import ManifestsProjector
from engramlog.projections.tables.declared.policies import PoliciesProjector
from engramlog.projections.tables.declared.subscriptions import SubscriptionsProjector
from engramlog.projections.tables.declared.trust import TrustProjector
from engramlog.projections.tables.episodes.consolidation import ConsolidationProjector
from engramlog.projections.tables.episodes.deltas import DeltasProjector
from engramlog.projections.tables.episodes.episodes import EpisodesProjector
from engramlog.projections.tables.episodes.summaries import SummariesProjector
from engramlog.projections.tables.facts.attributes import AttributesProjector
from engramlog.projections.tables.facts.cards import CardsProjector
from engramlog.projections.tables.facts.decay import DecayProjector
from engramlog.projections.tables.facts.derivations import DerivationsProjector
from engramlog.projections.tables.facts.entity_edges import EntityEdgesProjector
from engramlog.projections.tables.facts.erasures import ErasuresProjector
from engramlog.projections.tables.facts.fact_retractions import FactRetractionsProjector
from engramlog.projections.tables.facts.facts import FactsProjector
from engramlog.projections.tables.facts.tombstones import TombstonesProjector
from engramlog.projections.tables.facts.verdicts import VerdictsProjector
from engramlog.projections.tables.peers.peers import PeersProjector
from engramlog.projections.tables.peers.protocol_facts import ForeignFactsProjector
from engramlog.projections.tables.peers.remote_retractions import ForeignEndsProjector
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.recalls.access_counts import AccessProjector
from engramlog.projections.tables.recalls.feedback import FeedbackProjector
from engramlog.projections.tables.recalls.recall_receipts import RecallReceiptsProjector

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
    DenialsProjector(),
    ResolutionsProjector(),
    DerivationsProjector(),
    DecayProjector(),
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

IGNORED_KINDS = frozenset(
    {"epoch_started", "node_key_rotated", "replica_promoted", "request_answered"}
)
"""Known kinds that no table depends on: they concern the log itself."""

KNOWN_KINDS = IGNORED_KINDS.union(*(projector.kinds for projector in PROJECTORS))
