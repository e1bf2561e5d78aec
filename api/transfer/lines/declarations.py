"""Lines of an import file that declare something: gardens, tombstones, policies, sweeps, holds."""

from collections.abc import Callable
from uuid import UUID, uuid4

from msgspec import Struct, field
from msgspec.structs import asdict
from pydantic import ValidationError

from engramlog.api.answers.same_fields import shaped
from engramlog.api.node.node import Node
from engramlog.api.schemas.rights import SLUG, TrustPolicyRequest
from engramlog.api.transfer.lines.base import (
    IMPORT_ACTOR,
    Line,
    LineError,
    Target,
    line_error,
    line_uri,
)
from engramlog.eventlog.kinds import (
    DecayPolicy,
    GardenCreated,
    LegalHoldSet,
    PolicySet,
    Scope,
    SetValuedDeclared,
    TombstoneRevoked,
    TombstoneSet,
    TrustPolicy,
    TrustPolicySet,
)
from engramlog.projections.tables.declared.garden_directory import Garden
from engramlog.projections.tables.facts.tombstones import TOMBSTONE_SCOPES, hidden_scopes
from engramlog.projections.writing.commands import Command, DeleteGarden, SweepDecay
from engramlog.replay.stigmem.tombstones import own_revocation, own_tombstone

EVERY_GARDEN = "*"


class GardenLine(Line, frozen=True, kw_only=True, tag="garden"):
    """Creates a garden (``created_by`` is its first admin) or, with ``remove``, deletes it.

    ``id``: its former id, kept unless a garden here has it (a UUID)."""

    slug: str
    id: str | None = None
    name: str = ""
    scope: Scope = "company"
    description: str | None = None
    quarantine: bool = False
    created_by: str | None = None
    remove: bool = False


class Destination(Struct, frozen=True):
    """What lines need of the node that takes them. ``find_garden``: by slug or id. ``position_of``:
    the position of an episode, by its key here."""

    value_bytes_max: int
    find_garden: Callable[[str], Garden | None]
    position_of: Callable[[str], int | None]

    def garden(self, name: str, where: str) -> Garden:
        """The garden of a slug or id. Raises LineError."""
        garden = self.find_garden(name)
        if garden is None:
            raise LineError(f"no garden {name!r}", where)
        return garden

    def garden_id(self, name: str | None, where: str) -> str | None:
        """Its id, if the line names one. Raises LineError."""
        return None if name is None else self.garden(name, where).id


def garden_command(line: GardenLine, node: Destination) -> Command:
    """Create or delete a garden. Raises LineError."""
    if line.remove:
        return DeleteGarden(garden_id=node.garden(line.slug, "slug").id)
    if SLUG.fullmatch(line.slug) is None:
        raise LineError("must be lower-case letters, digits and hyphens, at most 63", "slug")
    return shaped(
        line,
        GardenCreated,
        name=line.name or line.slug,
        created_by=line_uri(line.created_by or IMPORT_ACTOR, "created_by"),
        garden_id=_garden_id(line.id) or str(uuid4()),
    )


def _garden_id(text: str | None) -> str | None:
    try:
        return None if text is None else str(UUID(text))
    except ValueError as fault:
        raise LineError("must be a UUID", "id") from fault


class TombstoneLine(Line, frozen=True, kw_only=True, tag="tombstone"):
    """Hides an entity from every answer or, with ``revoke``, shows it again."""

    entity: str
    scope: str = "all"
    reason: str | None = None
    legal_hold: bool = False
    signed_by: str | None = None
    revoke: bool = False


def tombstone_command(line: TombstoneLine, node: Node) -> TombstoneSet | TombstoneRevoked:
    """Set or revoke one of this node's tombstones. Raises LineError."""
    entity = line_uri(line.entity, "entity")
    if line.scope not in TOMBSTONE_SCOPES:
        raise LineError(f"must be one of {', '.join(TOMBSTONE_SCOPES)}", "scope")
    signer = line_uri(line.signed_by or IMPORT_ACTOR, "signed_by")
    identity, now_us = node.identity, node.clock.now_us()
    if not line.revoke:
        return own_tombstone(
            identity,
            now_us,
            entity=entity,
            scope=line.scope,
            signer=signer,
            legal_hold=line.legal_hold,
            reason=line.reason,
        )
    scopes = hidden_scopes(line.scope)
    rows, _ = node.reader.tombstones_of(entity)
    active = [row for row in rows if row.in_force and row.scopes == scopes and row.node_id is None]
    if not active:
        raise LineError("no tombstone of this scope is in force", "entity")
    reason = line.reason or "imported"
    name = active[0].tombstone_id
    return own_revocation(identity, now_us, tombstone_id=name, signer=signer, reason=reason)


class PolicyLine(Line, frozen=True, kw_only=True, tag="policy"):
    """A declaration: the set-valued relations, a decay policy to set or remove, or the formula for
    trust in sources."""

    set_valued: list[str] | None = None
    decay: DecayPolicy | None = None
    remove_decay: str | None = None
    trust: TrustPolicy | None = None


class SweepLine(Line, frozen=True, kw_only=True, tag="sweep"):
    """A decay sweep of scopes with the given policies."""

    scopes: list[str]
    policies: list[DecayPolicy]
    gardens: list[str] = field(default_factory=list)


class HoldLine(Line, frozen=True, kw_only=True, tag="hold"):
    """Sets or releases a legal hold of a fact (``target``, a key; or ``id``) or an entity, with the
    reason."""

    target: Target | None = None
    id: str | None = None
    entity: str | None = None
    held: bool = True
    reason: str = ""


def policy_command(line: PolicyLine, _: Destination) -> Command:
    """The declaration of a ``policy`` line. Raises LineError."""
    given = (line.set_valued, line.decay, line.remove_decay, line.trust)
    if sum(item is not None for item in given) != 1:
        raise LineError("needs exactly one of set_valued, decay, remove_decay and trust", "op")
    if line.decay is not None:
        return PolicySet(policy_id=line.decay.id, policy=line.decay)
    if line.remove_decay is not None:
        return PolicySet(policy_id=line.remove_decay, policy=None)
    if line.trust is not None:
        return TrustPolicySet(policy=_checked(line.trust))
    return SetValuedDeclared(relations=list(line.set_valued or ()))


def _checked(policy: TrustPolicy) -> TrustPolicy:
    try:
        TrustPolicyRequest.model_validate(asdict(policy))
    except ValidationError as fault:
        raise line_error(fault, "trust") from fault
    return policy


def sweep_command(line: SweepLine, node: Destination) -> Command:
    """A sweep. Raises LineError."""
    gardens = {
        name if name == EVERY_GARDEN else node.garden(name, "gardens").id for name in line.gardens
    }
    return SweepDecay(
        scopes=tuple(line.scopes), policies=tuple(line.policies), gardens=tuple(sorted(gardens))
    )


def hold_command(line: HoldLine, _: Destination) -> LegalHoldSet:
    """Hold a fact or an entity, or release it. Raises LineError."""
    if line.entity is not None:
        if line.id is not None or line.target is not None:
            raise LineError("needs exactly one of target, id and entity", "target")
        return LegalHoldSet("entity", line_uri(line.entity, "entity"), line.held, line.reason)
    if line.id is None:
        raise LineError("needs exactly one of target, id and entity", "target")
    return LegalHoldSet("fact", line.id, line.held, line.reason)
