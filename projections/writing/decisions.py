"""Every command that is more than "record this", and the function that decides it.

Decisions read their group's projection transaction, plus ``Undecided``: earlier drafts of the group
that are not applied yet. They write nothing.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from engramlog.eventlog import kinds
from engramlog.projections.tables.conflicts.contradictions import has_rival
from engramlog.projections.tables.declared.policies import is_set_valued
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing import memory_commands, peer_commands
from engramlog.projections.writing.commands import Command, CommandRefused, Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared import declaring, gardens
from engramlog.projections.writing.decide.facts import (
    asserting,
    attributing,
    erasing,
    feedback,
    quarantine,
    resolving,
    retracting,
    tombstoning,
)
from engramlog.projections.writing.decide.memory import (
    consolidating,
    deltas,
    episodes,
    memories,
    merging,
    restating,
    summaries,
)
from engramlog.projections.writing.decide.peers import peering, protocol_facts
from engramlog.projections.writing.idempotent_answers import NOT_KEPT

DECISIONS: dict[type[Command], Callable[[Any, Context], Decision | Refused]] = {
    ask.AssertFact: asserting.assert_fact,
    ask.RefusedItem: lambda _command, _context: NOT_KEPT,
    ask.RetractFact: retracting.retract_fact,
    ask.RetractMatching: retracting.retract_matching,
    kinds.FactDenied: retracting.deny_facts,
    ask.ResolveConflict: resolving.resolve_conflict,
    ask.ReviewContent: feedback.review_content,
    ask.SweepDecay: declaring.sweep_decay,
    kinds.KeyIssued: declaring.issue_key,
    kinds.KeyRevoked: declaring.revoke_key,
    ask.RevokeCapability: declaring.revoke_capability,
    ask.RevokeAgentKey: declaring.revoke_agent_key,
    kinds.GardenCreated: gardens.create_garden,
    ask.DeleteGarden: gardens.delete_garden,
    ask.SetMember: gardens.set_member,
    ask.ReviewQuarantined: quarantine.review_quarantined,
    kinds.AliasSet: declaring.set_alias,
    kinds.PolicySet: declaring.set_policy,
    kinds.SetValuedDeclared: declaring.declare_set_valued,
    kinds.TrustPolicySet: declaring.set_trust_policy,
    kinds.EmbeddingModelPinned: declaring.pin_embedding_model,
    ask.EraseFacts: erasing.erase_facts,
    kinds.FactErased: erasing.name_erased,
    ask.EraseEvents: erasing.erase_events,
    kinds.ErasureCertified: erasing.certify_erasure,
    kinds.LegalHoldSet: erasing.set_legal_hold,
    memory_commands.RecordEpisodes: episodes.record_episodes,
    memory_commands.ApplyDeltas: deltas.apply_deltas,
    kinds.ConsolidationRuleSet: consolidating.set_consolidation_rule,
    memory_commands.Consolidate: consolidating.consolidate,
    kinds.PeerDeclared: peering.declare_peer,
    kinds.PeerStateSet: peering.set_peer_state,
    peer_commands.AdoptPage: peering.adopt_page,
    peer_commands.TakeForeignEnds: peering.take_foreign_ends,
    peer_commands.NoteEquivocation: peering.note_equivocation,
    ask.Subscribe: declaring.subscribe,
    ask.Unsubscribe: declaring.unsubscribe,
    peer_commands.PutManifest: declaring.put_manifest,
    peer_commands.ReceiveForeign: protocol_facts.receive_foreign,
    kinds.RecallAnswered: feedback.keep_receipt,
    kinds.FactFeedback: feedback.give_feedback,
    memory_commands.RecordSummary: summaries.record_summary,
    kinds.TombstoneSet: tombstoning.set_tombstone,
    kinds.TombstoneRevoked: tombstoning.revoke_tombstone,
    ask.SetAttributes: attributing.set_attributes,
    memory_commands.StoreMemory: memories.store_memory,
    memory_commands.MergeMemories: merging.merge_memories,
    memory_commands.RestateBatch: restating.restate_batch,
}
"""By the command's type; other payloads are recorded as they are."""
ALONE = frozenset({
    ask.EraseFacts, ask.EraseEvents, peer_commands.TakeForeignEnds, memory_commands.StoreMemory,
    memory_commands.MergeMemories,
})  # fmt: skip
"""Commands that are decided alone, with everything before them committed."""


def decide(command: Command, context: Context) -> Decision | Refused:
    decision = DECISIONS.get(type(command))
    if decision is not None:
        try:
            return decision(command, context)
        except CommandRefused as fault:
            return fault.refused
    if isinstance(command, ask.OnBehalf):
        return decide(command.command, msgspec.structs.replace(context, actor=command.actor))
    if not isinstance(command, kinds.Payload) or command.replicated:
        raise TypeError(f"nothing decides {type(command).__name__}")
    return Decision([context.draft(command)])


def contradicted(rival: tuple[bytes, bytes, str], context: Context) -> bool:
    """Whether a decision's fact now has a live rival, all applied; see ``Decision.rival``."""
    key, value, relation = rival
    return has_rival(context.db, key, value, context.now_us) and not is_set_valued(
        context.db, relation
    )
