"""Lines of an import file that declare something: policies, sweeps, holds."""

from msgspec import field
from msgspec.structs import asdict
from pydantic import ValidationError

from engramlog.api.schemas.rights import TrustPolicyRequest
from engramlog.api.transfer.lines.base import Line, LineError, Target, line_error, line_uri
from engramlog.api.transfer.lines.gardens import EVERY_GARDEN, Destination
from engramlog.eventlog.kinds import (
    DecayPolicy,
    LegalHoldSet,
    PolicySet,
    SetValuedDeclared,
    TrustPolicy,
    TrustPolicySet,
)
from engramlog.projections.writing.commands import Command, SweepDecay


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
