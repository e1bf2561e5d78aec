"""Stargraph's memory protocols over an engramlog node, by their own names and signatures."""

from engramlog.api.python.stargraph.node_stores import NodeFactStore, NodeMemoryStore
from engramlog.api.python.stargraph.protocol import (
    AddDelta,
    ConsolidationRule,
    DeleteDelta,
    Episode,
    EpisodeConflict,
    FactPattern,
    FactStore,
    MemoryDelta,
    MemoryStore,
    Migration,
    MigrationNotSupported,
    MigrationPlan,
    NoopDelta,
    RuleBasedScorer,
    SalienceContext,
    SalienceScorer,
    StoreHealth,
    UpdateDelta,
)
from engramlog.api.python.stargraph.protocol import MemorisedFact as Fact
from engramlog.projections.episodes.delta import ConsolidationRuleError, FactConflictError
from engramlog.projections.memories.place import MemoryScopeError

__all__ = [
    "AddDelta", "ConsolidationRule", "ConsolidationRuleError", "DeleteDelta", "Episode",
    "EpisodeConflict", "Fact", "FactConflictError", "FactPattern", "FactStore", "MemoryDelta",
    "MemoryScopeError", "MemoryStore", "Migration", "MigrationNotSupported", "MigrationPlan",
    "NodeFactStore", "NodeMemoryStore", "NoopDelta", "RuleBasedScorer", "SalienceContext",
    "SalienceScorer", "StoreHealth", "UpdateDelta",
]  # fmt: skip
