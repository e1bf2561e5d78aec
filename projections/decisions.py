"""Every intent, and the function that decides what it leads to.

Decisions read the projection transaction of the group they are in, plus ``Undecided``:
what was drafted earlier in the group and is not applied. They write nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from projections import intents as ask
from projections.contradictions import has_rival
from projections.deciding.agent_keys import register_agent_key, revoke_agent_key
from projections.deciding.aliasing import remove_alias, set_alias
from projections.deciding.asserting import assert_fact
from projections.deciding.attributing import set_attributes
from projections.deciding.capabilities import issue_capability, revoke_capability
from projections.deciding.consolidating import consolidate, set_consolidation_rule
from projections.deciding.context import Context, Decision
from projections.deciding.declaring import (
    declare_set_valued,
    issue_key,
    pin_embedding_model,
    promote_replica,
    record_answers,
    revoke_key,
    rotate_node_key,
    set_policy,
    set_profile,
    set_source_trust,
    set_trust_policy,
    start_epoch,
    sweep_decay,
    track_recalls,
)
from projections.deciding.deltas import apply_deltas
from projections.deciding.episodes import note_episode_access, record_episodes
from projections.deciding.erasing import (
    certify_erasure,
    erase_events,
    erase_facts,
    set_legal_hold,
)
from projections.deciding.feedback import give_feedback
from projections.deciding.foreign import receive_foreign
from projections.deciding.gardens import create_garden, delete_garden, set_member
from projections.deciding.manifests import put_manifest
from projections.deciding.memories import store_memory
from projections.deciding.merging import merge_memories
from projections.deciding.peering import (
    adopt_page,
    declare_peer,
    note_equivocation,
    set_peer_state,
    take_foreign_ends,
)
from projections.deciding.quarantine import review_quarantined
from projections.deciding.resolving import resolve_conflict
from projections.deciding.restating import restate_batch, restate_note
from projections.deciding.retracting import retract_fact, retract_matching
from projections.deciding.reviewing import review_content
from projections.deciding.subscribing import subscribe, unsubscribe
from projections.deciding.summaries import record_summary
from projections.deciding.tombstoning import revoke_tombstone, set_tombstone
from projections.intents import Refused
from projections.policies import is_set_valued

DECISIONS: dict[type[ask.Intent], Callable[[Any, Context], Decision | Refused]] = {
    ask.AssertFact: assert_fact,
    ask.RetractFact: retract_fact,
    ask.RetractMatching: retract_matching,
    ask.ResolveConflict: resolve_conflict,
    ask.ReviewContent: review_content,
    ask.SweepDecay: sweep_decay,
    ask.IssueKey: issue_key,
    ask.RevokeKey: revoke_key,
    ask.IssueCapability: issue_capability,
    ask.RevokeCapability: revoke_capability,
    ask.RegisterAgentKey: register_agent_key,
    ask.RevokeAgentKey: revoke_agent_key,
    ask.CreateGarden: create_garden,
    ask.DeleteGarden: delete_garden,
    ask.SetMember: set_member,
    ask.ReviewQuarantined: review_quarantined,
    ask.SetAlias: set_alias,
    ask.RemoveAlias: remove_alias,
    ask.SetPolicy: set_policy,
    ask.DeclareSetValued: declare_set_valued,
    ask.SetProfile: set_profile,
    ask.SetSourceTrust: set_source_trust,
    ask.SetTrustPolicy: set_trust_policy,
    ask.PinEmbeddingModel: pin_embedding_model,
    ask.TrackRecalls: track_recalls,
    ask.RecordAnswers: record_answers,
    ask.EraseFacts: erase_facts,
    ask.EraseEvents: erase_events,
    ask.CertifyErasure: certify_erasure,
    ask.SetLegalHold: set_legal_hold,
    ask.RecordEpisodes: record_episodes,
    ask.NoteEpisodeAccess: note_episode_access,
    ask.ApplyDeltas: apply_deltas,
    ask.SetConsolidationRule: set_consolidation_rule,
    ask.Consolidate: consolidate,
    ask.DeclarePeer: declare_peer,
    ask.SetPeerState: set_peer_state,
    ask.AdoptPage: adopt_page,
    ask.TakeForeignEnds: take_foreign_ends,
    ask.NoteEquivocation: note_equivocation,
    ask.Subscribe: subscribe,
    ask.Unsubscribe: unsubscribe,
    ask.RotateNodeKey: rotate_node_key,
    ask.StartEpoch: start_epoch,
    ask.PromoteReplica: promote_replica,
    ask.PutManifest: put_manifest,
    ask.ReceiveForeign: receive_foreign,
    ask.GiveFeedback: give_feedback,
    ask.RecordSummary: record_summary,
    ask.SetTombstone: set_tombstone,
    ask.RevokeTombstone: revoke_tombstone,
    ask.SetAttributes: set_attributes,
    ask.StoreMemory: store_memory,
    ask.MergeMemories: merge_memories,
    ask.RestateBatch: restate_batch,
    ask.RestateNote: restate_note,
}
"""Every intent and the function that decides it."""


def contradicted(decision: Decision, context: Context) -> bool:
    """Whether the fact of a decision has a live rival now, after everything was applied."""
    if decision.rival is None:
        return False
    key, value, relation = decision.rival
    return has_rival(context.db, key, value, context.now_us) and not is_set_valued(
        context.db, relation
    )
