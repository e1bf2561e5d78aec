"""An event's subject in a few words, unless the subject is one fact."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Detail = Mapping[str, Any]

ABOUT_LENGTH_MAX = 300
OF_MANY_FACTS = frozenset({"recall_answered", "recall_served", "request_answered"})
"""Kinds whose facts share nothing but the event: no single fact is the subject."""


def about(kind: str, detail: Detail) -> str | None:
    """Words for ``detail``, the caller's visible part of an event's payload: a recall's question,
    an alias's target, a key's holder. None if the touched facts say everything."""
    said = _WORDS.get(kind)
    if said is None:
        return None
    words = said(detail).strip()
    return words[:ABOUT_LENGTH_MAX] or None


def _join_fields(*names: str) -> Callable[[Detail], str]:
    """The values of present fields, with commas between."""

    def said(detail: Detail) -> str:
        return ", ".join(_text(detail[name]) for name in names if detail.get(name))

    return said


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)


def _fill(text: str, **absent: object) -> Callable[[Detail], str]:
    """The text with fields in its braces; an absent one has its value of ``absent``, or none."""

    def said(detail: Detail) -> str:
        return text.format_map(defaultdict(str, {**absent, **detail}))

    return said


def _count_lists(**fields: str) -> Callable[[Detail], str]:
    """The length of a list, for each field: ``cited="cited"`` gives "3 cited"."""

    def said(detail: Detail) -> str:
        found = {word: len(_list(detail, name)) for name, word in fields.items()}
        return ", ".join(f"{count} {word}" for word, count in found.items() if count)

    return said


def _list(detail: Detail, name: str) -> Sequence[Any]:
    found = detail.get(name)
    return found if isinstance(found, list | tuple) else ()  # pyright: ignore[reportUnknownVariableType]


def _uses(detail: Detail) -> str:
    count = len(_list(detail, "uses"))
    return f"{count} {'fact' if count == 1 else 'facts'} returned by recalls"


def _alias(detail: Detail) -> str:
    raw, meant = detail.get("raw_uri", ""), detail.get("canonical_uri")
    return f"{raw} means {meant}" if meant else f"{raw} means itself"


def _hold(detail: Detail) -> str:
    done = f"{detail.get('target', '')} {'let go' if detail.get('held') is False else 'held'}"
    return f"{done}: {detail['reason']}" if detail.get("reason") else done


def _member(detail: Detail) -> str:
    return f"{detail.get('entity_uri', '')}: {detail.get('role') or 'no member any more'}"


def _peer_state(detail: Detail) -> str:
    held = detail.get("held")
    stream = {True: "stream held", False: "stream released"}.get(held) if held is not None else None
    return ", ".join(filter(None, (detail.get("peer_id"), detail.get("state"), stream)))


def _erased(detail: Detail) -> str:
    counts = {name: detail.get(f"{name}s", 0) for name in ("fact", "event")}
    return ", ".join(f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts.items())


def _name_or_removed(name: str, document: str) -> Callable[[Detail], str]:
    """A name, plus "removed" if its document is absent."""

    def said(detail: Detail) -> str:
        removed = "" if detail.get(document) else ", removed"
        return f"{detail.get(name, '')}{removed}"

    return said


def _sweep(detail: Detail) -> str:
    count = len(_list(detail, "policies"))
    return f"{detail.get('scope', '')} by {count} {'policy' if count == 1 else 'policies'}"


_WORDS: dict[str, Callable[[Detail], str]] = {
    "agent_key_set": _join_fields("entity_uri", "status"),
    "alias_set": _alias,
    "capability_issued": _join_fields("subject", "verb", "object"),
    "capability_revoked": _join_fields("revocation_id", "reason"),
    "consolidation_ran": _fill(
        "{rule_id}: {episodes} episodes read, {applied} deltas applied", episodes=0, applied=0
    ),
    "consolidation_rule_set": _name_or_removed("rule_id", "document"),
    "content_reviewed": _join_fields("decision", "reason"),
    "decay_swept": _sweep,
    "delta_rejected": _join_fields("reason", "message"),
    "embedding_model_pinned": _fill("{model}, {dimensions} dimensions"),
    "episode_accessed": _count_lists(episodes="looked at"),
    "episode_recorded": _join_fields("content"),
    "epoch_started": _join_fields("reason", "node_id"),
    "erasure_certified": _join_fields("erasure_id"),
    "fact_erased": _erased,
    "fact_feedback": _count_lists(cited="cited", rejected="rejected"),
    "foreign_page_received": _fill("{node_id}: {accepted} facts accepted", accepted=0),
    "garden_created": _join_fields("name"),
    "garden_deleted": _join_fields("garden_id"),
    "garden_member_set": _member,
    "key_issued": _join_fields("entity_uri", "description"),
    "key_revoked": _join_fields("key_id", "reason"),
    "legal_hold_set": _hold,
    "node_key_rotated": _join_fields("public_key"),
    "org_manifest_set": _join_fields("entity_uri"),
    "peer_declared": _join_fields("node_url", "node_id", "fault"),
    "peer_equivocated": _join_fields("node_id", "sort"),
    "peer_page_received": _fill("{stream}, events {first_seq} to {last_seq}"),
    "peer_state_set": _peer_state,
    "policy_set": _name_or_removed("policy_id", "policy"),
    "profile_set": _name_or_removed("name", "document"),
    "quarantine_reviewed": _join_fields("decision", "reason"),
    "recall_answered": _join_fields("query"),
    "recall_served": _uses,
    "replica_promoted": _join_fields("primary_url"),
    "request_answered": _count_lists(outcomes="commands of one request"),
    "set_valued_declared": _join_fields("relations"),
    "source_trust_set": _fill("{source}: {trust}"),
    "subscription_set": _join_fields("subscriber", "target"),
    "summary_recorded": _join_fields("name"),
    "tombstone_revoked": _join_fields("tombstone_id", "reason"),
    "tombstone_set": _join_fields("entity", "reason"),
    "webhooks_delivered": _count_lists(progress="subscriptions"),
    "trust_policy_set": lambda detail: f"mode {detail.get('policy', {}).get('mode', 'relaxed')}",
}
