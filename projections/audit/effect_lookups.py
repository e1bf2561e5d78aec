"""Where each table keeps the rows that an event changed: one lookup a table, by an index.

A lookup finds rows of today's tables. What an event changed without leaving its mark in a row,
such as a count, is said in words (``WORDS``). So are conflicts: which of them the tables hold
depends on facts that a caller may not read.
"""

from msgspec import Struct

MARKS = {
    "position": "written",
    "from_position": "written",
    "to_position": "ended",
    "set_aside": "set aside",
    "replaced": "replaced",
    "resolved_position": "settled",
}
"""Columns that hold the position of the event that changed a row, and what it then did."""

FACTS = "(SELECT value FROM json_each(:facts))"
"""In a lookup: the ids of the event's facts that the caller may read."""


class Lookup(Struct, frozen=True):
    """Rows of one table.

    Attributes:
        table: its name.
        where: a condition over ``:position``, ``:event_id``, ``:event_bytes``, ``:origin``, the
            event's ``FACTS``, and fields of the payload.
        shown: columns that name a row. Never what a fact says, and no secret.
        facts: columns with ids of facts, all of which the caller has to be able to read.
        of_facts: the rows say no more than the event's own facts do.
        kinds: event kinds; empty: all that the projection reads.

    Columns and kinds are words of one text.
    """

    table: str
    where: str
    shown: str = ""
    facts: str = ""
    of_facts: bool = False
    kinds: str = ""

    def reads(self, kind: str) -> bool:
        """Whether an event of this kind changes the rows."""
        return not self.kinds or kind in self.kinds.split()


_AT = "position=:position"
_FROM = "from_position=:position"
_BOTH = ":position IN (from_position, to_position)"

LOOKUPS = (
    Lookup("api_keys", f"key_id=:key_id AND {_BOTH}", "key_id entity_uri permissions"),
    Lookup("agent_keys", "key_id=:key_id", "key_id entity_uri status"),
    Lookup("declarations", _BOTH, "sort name"),
    Lookup("source_trust", f"source=:source AND {_BOTH}", "source trust", kinds="source_trust_set"),
    Lookup("key_sources", _FROM, "source", kinds="key_issued"),
    Lookup("trust_policies", _FROM, kinds="trust_policy_set"),
    Lookup("gardens", _BOTH, "slug name scope", kinds="garden_created garden_deleted"),
    Lookup(
        "garden_members",
        f"garden_id=:garden_id AND {_BOTH}",
        "entity_uri role",
        kinds="garden_created garden_deleted garden_member_set",
    ),
    Lookup(
        "quarantine",
        f"fact_id=:fact_id AND {_AT}",
        "decision",
        facts="fact_id admitted_fact_id",
        kinds="quarantine_reviewed",
    ),
    Lookup("aliases", f"raw_uri=:raw_uri AND {_BOTH}", "raw_uri canonical_uri"),
    Lookup(
        "facts", f"{_FROM} OR (id IN {FACTS} AND :position IN (to_position, set_aside))", facts="id"
    ),
    Lookup("fact_attributes", _AT, facts="fact_id"),
    Lookup("entity_edges", f"id IN {FACTS} AND {_BOTH}", facts="id"),
    Lookup("fact_retractions", _AT, "cause", facts="fact_id marker_id"),
    Lookup(
        "denials",
        "conflict_id=:conflict_id AND resolved_position=:position",
        "conflict_id",
        facts="fact_id marker_id winner_id resolution_fact_id",
        kinds="conflict_resolved",
    ),
    Lookup("denials", _AT, "conflict_id", facts="fact_id marker_id", kinds="fact_denied"),
    Lookup(
        "resolved_facts", "note_id=:resolution_fact_id AND origin=:origin", facts="note_id fact_id"
    ),
    Lookup(
        "derivations",
        f"{_FROM} AND child_hash IN"
        " (SELECT replace(cid, 'sha256:', '') FROM facts WHERE from_position=:position)",
        "parent_hash",
        of_facts=True,
    ),
    Lookup("decay_sweeps", _AT, "scope"),
    Lookup("fact_accesses", _AT, "count", facts="fact_id"),
    Lookup("fact_feedback", _AT, "cited rejected", facts="fact_id"),
    Lookup("verdicts", _FROM, "codes", facts="fact_id", kinds="fact_asserted"),
    Lookup(
        "content_reviews",
        f"fact_id=:fact_id AND {_BOTH}",
        "decision",
        facts="fact_id",
        kinds="content_reviewed",
    ),
    Lookup("recall_receipts", _AT, "receipt_id"),
    Lookup("capabilities", "token_id=:token_id", "subject verb object", kinds="capability_issued"),
    Lookup("capability_revocations", _FROM, "revocation_id", kinds="capability_revoked"),
    Lookup("erasures", _AT, "erasure_id", kinds="fact_erased"),
    Lookup("erased_facts", _AT, "fact_id", kinds="fact_erased"),
    Lookup(
        "erasure_receipts",
        f"erasure_id=:erasure_id AND {_AT}",
        "erasure_id",
        kinds="erasure_certified",
    ),
    Lookup(
        "legal_holds",
        f"{_FROM} OR (target_kind=:target_kind AND target=:target AND to_position=:position)",
        "target_kind target",
        kinds="legal_hold_set",
    ),
    Lookup("episodes", _AT, "id user", kinds="episode_recorded"),
    Lookup("deltas", _AT, "number kind", facts="fact_id", kinds="delta_applied"),
    Lookup(
        "memory_facts",
        f"fact_id IN {FACTS} AND :position IN (from_position, replaced)",
        facts="fact_id",
        kinds="delta_applied",
    ),
    Lookup("delta_rejections", _AT, "delta_id", kinds="delta_rejected"),
    Lookup(
        "consolidation_rules",
        f"rule_id=:rule_id AND {_BOTH}",
        "rule_id",
        kinds="consolidation_rule_set",
    ),
    Lookup("consolidation_runs", _AT, "rule_id run_id", kinds="consolidation_ran"),
    Lookup("quarantined_episodes", f"rule_id=:rule_id AND {_AT}", "key", kinds="consolidation_ran"),
    Lookup("peers", "peer_id=:peer_id", "node_url state", kinds="peer_declared peer_state_set"),
    Lookup(
        "peer_streams", "stream=:stream", "stream held", kinds="peer_state_set peer_page_received"
    ),
    Lookup("peer_evidence", _AT, "stream sort", kinds="peer_equivocated"),
    Lookup(
        "refused_events",
        f"stream=:stream AND {_AT}",
        "stream stream_seq reason",
        kinds="peer_page_received",
    ),
    Lookup(
        "foreign_ends", f"fact_id IN {FACTS} AND event_id=:event_bytes", "ending", facts="fact_id"
    ),
    Lookup("foreign_cursors", "node_id=:node_id", "node_id scope", kinds="foreign_page_received"),
    Lookup("foreign_pages", "node_id=:node_id", "node_id", kinds="foreign_page_received"),
    Lookup(
        "foreign_refusals",
        f"node_id=:node_id AND {_AT}",
        "foreign_id code",
        kinds="foreign_page_received",
    ),
    Lookup("subscriptions", "subscription_id=:subscription_id", "subscriber target"),
    Lookup(
        "summaries",
        f"{_AT} OR (partition=(SELECT partition FROM summaries WHERE {_AT})"
        " AND owner=:owner AND name=:name AND to_position=:position)",
        "name tier period_start",
    ),
    Lookup("summary_paragraphs", _AT, "number", facts="fact_id"),
    Lookup(
        "tombstones",
        "tombstone_id=:tombstone_id",
        "entity scope",
        kinds="tombstone_set tombstone_revoked",
    ),
    Lookup("tombstone_revocations", _AT, "revocation_id", kinds="tombstone_revoked"),
    Lookup("manifests", _AT, "entity_uri key_id"),
)
"""In the order of the projections."""

_ASSERTED = "fact_asserted"
_SWEPT = "decay_swept"
WORDS: dict[str, dict[str, str]] = {
    "facts": {_SWEPT: "the confidence of facts in its scope"},
    "entity_edges": {
        _SWEPT: "the confidence of edges in its scope",
        "key_issued": "the trust of edges that the key's sources stated",
        "source_trust_set": "the trust of edges that the source stated",
        "trust_policy_set": "the trust of every edge",
    },
    "contradictions": {
        _ASSERTED: "claims to its value, and conflicts with other values",
        "fact_retracted": "claims to each ended value, and their conflicts",
        "conflict_resolved": "claims to each value set aside, and their conflicts",
        _SWEPT: "claims to each value that the sweep ended, and their conflicts",
        "set_valued_declared": "conflicts of its relations",
    },
    "cards": {_ASSERTED: "the card of its entity"},
    "episodes": {"episode_accessed": "when each episode was looked at"},
    "deltas": {"delta_applied": "which episodes each delta came from"},
    "foreign_facts": {_ASSERTED: "the id of the fact at its own node, if it has one there"},
    "foreign_ends": {
        "fact_retracted": "ends that peers asked for, once applied here",
        "conflict_resolved": "ends that peers asked for, once applied here",
    },
}
"""Projection → kind → what it changed that no row says."""
ERASED_WORDS = "its rows of what was erased are gone"
