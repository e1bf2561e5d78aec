"""Lines of an import file that declare something: policies, trust, aliases, profiles, holds."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field
from msgspec.structs import asdict
from pydantic import ValidationError

from api.garden_lines import EVERY_GARDEN, FindGarden, garden_of
from api.line_base import Line, LineError, line_uri
from api.schemas.trust import TrustPolicyRequest
from eventlog.kinds import DecayPolicy, TrustPolicy
from projections.intents import (
    DeclareSetValued,
    Intent,
    RemoveAlias,
    SetAlias,
    SetLegalHold,
    SetPolicy,
    SetProfile,
    SetSourceTrust,
    SetTrustPolicy,
    SweepDecay,
)
from projections.recall.profile import ProfileError, parse_profile


class PolicyLine(Line, frozen=True, kw_only=True, tag="policy"):
    """A declaration: the set-valued relations, a decay policy to set or remove, or the formula
    by which sources are trusted."""

    set_valued: list[str] | None = None
    decay: DecayPolicy | None = None
    remove_decay: str | None = None
    trust: TrustPolicy | None = None


class TrustLine(Line, frozen=True, kw_only=True, tag="trust"):
    """How far this node trusts a source, 0 to 1."""

    source: str
    trust: float
    reason: str = ""


class SweepLine(Line, frozen=True, kw_only=True, tag="sweep"):
    """A decay sweep of scopes with the policies given."""

    scopes: list[str]
    policies: list[DecayPolicy]
    gardens: list[str] = field(default_factory=list)


class AliasLine(Line, frozen=True, kw_only=True, tag="alias"):
    """A name means an entity from here on, or itself again (null)."""

    name: str
    entity: str | None = None
    kind: Literal["user", "migration"] = "user"


class ProfileLine(Line, frozen=True, kw_only=True, tag="profile"):
    """A recall profile is installed, or removed (null)."""

    name: str
    document: dict[str, Any] | None = None


class HoldLine(Line, frozen=True, kw_only=True, tag="hold"):
    """A fact (``target``, a key; or ``id``) or an entity may not be erased; or may again."""

    target: str | None = None
    id: str | None = None
    entity: str | None = None
    held: bool = True


def policy_intent(line: PolicyLine) -> Intent:
    """What a ``policy`` line declares. Raises LineError."""
    given = (line.set_valued, line.decay, line.remove_decay, line.trust)
    if sum(item is not None for item in given) != 1:
        raise LineError("needs exactly one of set_valued, decay, remove_decay and trust", "op")
    if line.decay is not None:
        return SetPolicy(policy_id=line.decay.id, policy=line.decay)
    if line.remove_decay is not None:
        return SetPolicy(policy_id=line.remove_decay, policy=None)
    if line.trust is not None:
        return SetTrustPolicy(policy=_checked(line.trust))
    return DeclareSetValued(relations=tuple(line.set_valued or ()))


def _checked(policy: TrustPolicy) -> TrustPolicy:
    try:
        TrustPolicyRequest.model_validate(asdict(policy))
    except ValidationError as fault:
        error = fault.errors(include_url=False)[0]
        place = ".".join(("trust", *(str(part) for part in error["loc"])))
        raise LineError(error["msg"], place) from fault
    return policy


def trust_intent(line: TrustLine) -> SetSourceTrust:
    """Trust in a source. Raises LineError."""
    if not 0 <= line.trust <= 1:
        raise LineError("must be from 0 to 1", "trust")
    return SetSourceTrust(
        source=line_uri(line.source, "source"), trust=line.trust, reason=line.reason
    )


def sweep_intent(line: SweepLine, find: FindGarden) -> Intent:
    """A sweep. Raises LineError."""
    gardens = {
        name if name == EVERY_GARDEN else garden_of(name, find, "gardens").id
        for name in line.gardens
    }
    return SweepDecay(
        scopes=tuple(line.scopes), policies=tuple(line.policies), gardens=tuple(sorted(gardens))
    )


def alias_intent(line: AliasLine) -> Intent:
    """Set an alias, or take it back. Raises LineError."""
    raw = line_uri(line.name, "name")
    if line.entity is None:
        return RemoveAlias(raw_uri=raw, migrations=True)
    return SetAlias(raw_uri=raw, canonical_uri=line_uri(line.entity, "entity"), kind=line.kind)


def profile_intent(line: ProfileLine) -> SetProfile:
    """Install or remove a profile. Raises LineError."""
    if line.document is not None:
        document = {"name": line.name, **line.document}
        if document["name"] != line.name:
            raise LineError("must be the line's name", "document.name")
        try:
            parse_profile(document)
        except ProfileError as fault:
            path = fault.path.removeprefix("$").strip(".")
            raise LineError(fault.reason, f"document.{path}".rstrip(".")) from fault
    return SetProfile(name=line.name, document=line.document)


def hold_intent(line: HoldLine) -> SetLegalHold:
    """Hold a fact or an entity, or let it go. Raises LineError."""
    if line.entity is not None:
        if line.id is not None or line.target is not None:
            raise LineError("needs exactly one of target, id and entity", "target")
        return SetLegalHold(
            target_kind="entity", target=line_uri(line.entity, "entity"), held=line.held
        )
    if line.id is None:
        raise LineError("needs exactly one of target, id and entity", "target")
    return SetLegalHold(target_kind="fact", target=line.id, held=line.held)
