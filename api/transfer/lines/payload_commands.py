"""The commands of lines with a payload: the payload, after checks."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from engramlog.api.transfer.lines.base import LineError, line_uri
from engramlog.api.transfer.lines.declarations import Destination
from engramlog.api.transfer.lines.payload_lines import PayloadLine, settled_payload
from engramlog.eventlog.kinds import (
    AliasSet,
    ConsolidationRuleSet,
    ContentReviewed,
    DeltaRejected,
    EpisodeAccessed,
    GardenMemberSet,
    MemoriesMerged,
    Payload,
    ProfileSet,
    QuarantineReviewed,
    RecallServed,
    SourceTrustSet,
)
from engramlog.projections.episodes.rule import Rule, RuleError, parse_rule
from engramlog.projections.memories.place import PART_BYTES_MAX, MemoryScopeError, name_part
from engramlog.projections.recall.profile import ProfileError, read_profile
from engramlog.projections.writing.commands import Command, OnBehalf, ReviewContent, SetMember


def payload_command(line: PayloadLine, node: Destination) -> Command:
    """The command of a line. Raises LineError."""
    payload = settled_payload(line, node)
    ask = _COMMANDS.get(type(payload))
    command = payload if ask is None else ask(payload, node)
    if line.actor is None:
        return command
    return OnBehalf(line_uri(line.actor, line.shape.actor), command)


def checked_rule(payload: Payload) -> Rule | None:
    """The rule that a payload sets; None if it sets none. Raises LineError."""
    if not isinstance(payload, ConsolidationRuleSet) or payload.document is None:
        return None
    try:
        rule = parse_rule({"id": payload.rule_id, **payload.document})
    except RuleError as fault:
        raise LineError(fault.reason, _inside_document(fault.path)) from fault
    if rule.id != payload.rule_id:
        raise LineError("must be the rule_id", "document.id")
    return rule


def _rule(payload: ConsolidationRuleSet, node: Destination) -> Payload:
    rule = checked_rule(payload)
    if rule is None:
        return payload
    rule = replace(rule, garden_id=node.garden_id(rule.garden_id, "document.garden_id"))
    return replace(payload, document=rule.document())


def _profile(payload: ProfileSet, _: Destination) -> Payload:
    if payload.document is None:
        return payload
    document = {"name": payload.name, **payload.document}
    if document["name"] != payload.name:
        raise LineError("must be the line's name", "document.name")
    try:
        read_profile(document)
    except ProfileError as fault:
        raise LineError(fault.reason, _inside_document(fault.path)) from fault
    return payload


def _inside_document(path: str) -> str:
    return f"document.{path.removeprefix('$').strip('.')}".rstrip(".")


def _trust(payload: SourceTrustSet, _: Destination) -> Payload:
    if not 0 <= payload.trust <= 1:
        raise LineError("must be from 0 to 1", "trust")
    return payload


def _alias(payload: AliasSet, _: Destination) -> Payload:
    """Lines also remove aliases of a migration."""
    return payload if payload.canonical_uri else replace(payload, alias_kind="migration")


def _review(payload: ContentReviewed, _: Destination) -> Command:
    return ReviewContent(review=payload)


def _member(payload: GardenMemberSet, node: Destination) -> Command:
    here = node.garden(payload.garden_id, "garden").role(payload.entity_uri) is not None
    change = "remove" if payload.role is None else "change" if here else "add"
    return SetMember(member=payload, change=change)


def _judged(payload: QuarantineReviewed, _: Destination) -> Payload:
    if (payload.decision == "admitted") != (payload.admitted_fact_id is not None):
        raise LineError("needs the decision admitted", "admitted")
    return payload


def _merged(payload: MemoriesMerged, _: Destination) -> Payload:
    for name in ("recalls", "citations", "rejections"):
        if getattr(payload, name) < 0:
            raise LineError("must not be negative", name)
    return replace(payload, instants_us=sorted(payload.instants_us))


def _recalled(payload: RecallServed, _: Destination) -> Payload:
    for number, use in enumerate(payload.uses):
        if use.count < 1:
            raise LineError("must be at least 1", f"uses.{number}.count")
    return payload


def _look(payload: EpisodeAccessed, _: Destination) -> Payload:
    if not payload.episodes:
        raise LineError("must not be empty", "episodes")
    return payload


def _rejected(payload: DeltaRejected, _: Destination) -> Payload:
    named("delta_id", payload.delta_id)
    given_name("run_id", payload.run_id)
    return replace(payload, user=part("user", payload.user), agent=part("agent", payload.agent))


def part(where: str, text: str) -> str:
    """A user's or agent's name. Raises LineError."""
    try:
        return name_part(where.rpartition(".")[2], text)
    except MemoryScopeError as fault:
        raise LineError(fault.reason, where) from fault


def named(where: str, text: str) -> str:
    """A delta's, run's or fact's own name. Raises LineError."""
    if not 0 < len(text.encode()) <= PART_BYTES_MAX:
        raise LineError(f"must have 1 to {PART_BYTES_MAX} bytes", where)
    return text


def given_name(where: str, text: str | None) -> str | None:
    """``named``, if given. Raises LineError."""
    return None if text is None else named(where, text)


_COMMANDS: dict[type[Payload], Callable[[Any, Destination], Command]] = {
    SourceTrustSet: _trust,
    AliasSet: _alias,
    ProfileSet: _profile,
    ContentReviewed: _review,
    GardenMemberSet: _member,
    QuarantineReviewed: _judged,
    MemoriesMerged: _merged,
    RecallServed: _recalled,
    EpisodeAccessed: _look,
    DeltaRejected: _rejected,
    ConsolidationRuleSet: _rule,
}
"""Payloads with a check, or with another command."""
