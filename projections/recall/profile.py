"""Profiles: validated documents with everything in which one recall differs from another.

``parse_profile`` checks a document completely: structure, ranges, and every name against the tables
of stages, factors, fusions, similarities and estimators.
"""

import copy
import hashlib
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from engramlog.projections.allowed_values import with_choices
from engramlog.projections.recall.certainty import Certainty
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.overview import Overview
from engramlog.projections.recall.enrichment import ENRICHMENTS
from engramlog.projections.recall.factors.factors import FACTORS, NAMED_STAGES, Fraction
from engramlog.projections.recall.question_intent import Ambient
from engramlog.projections.recall.ranking.diversity import SIMILARITIES
from engramlog.projections.recall.ranking.fusion import FUSIONS, NORMALISATIONS, FusionChoice
from engramlog.projections.recall.ranking.packing import ESTIMATORS
from engramlog.projections.recall.ranking.ties import TIES
from engramlog.projections.recall.request import LIMIT
from engramlog.projections.recall.stages import STAGES

_PACKAGE = "engramlog.projections.recall"
POOL_MAX = 5_000
FACTORS_MAX = 12
LEFT_OUT_MAX = 100
"""Parts of one document that this release need not know."""
LIMIT_MAX = 500


class ProfileError(ValueError):
    """A profile document is wrong. ``path`` is the field at fault, as ``$.stages[0].name``."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnknownProfile(LookupError):
    """No profile has this name."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of a document."""


class Filled(_Part, frozen=True):
    """How many candidates an earlier ``stage`` must have found: ``hits``, or as many as the answer
    may hold."""

    stage: str
    hits: Annotated[int, Meta(ge=1, le=POOL_MAX)] | Literal["limit"] = "limit"


class StageChoice(_Part, frozen=True):
    """A stage of a profile.

    Attributes:
        weight: of its normalised score.
        label: another name for requests and answers.
        candidates: how many it may propose.
        per_result: if lower, this many per fact that the answer may hold.
        deadline_ms: how long it may take; afterwards the recall continues without it.
        skipped_after: skip it after an earlier stage found enough.
        always: run it even if a request names other stages.
        without: relations hidden from it because another stage handles them.
    """

    name: str
    weight: Fraction
    label: Annotated[str, Meta(max_length=64)] = ""
    candidates: Annotated[int, Meta(ge=1, le=POOL_MAX)] = 1000
    per_result: Annotated[int, Meta(ge=1, le=100)] | None = None
    deadline_ms: Annotated[int, Meta(ge=1, le=60_000)] = 2000
    skipped_after: Filled | None = None
    always: bool = False
    without: tuple[str, ...] = ()
    parameters: Any = field(default_factory=dict[str, Any])


class FactorChoice(_Part, frozen=True):
    """A factor and its mode (see ``factors``); ``weight`` is for ``add`` only."""

    name: str
    mode: Literal["mul", "add", "boost", "floor"] = "mul"
    weight: Fraction = 0.0
    parameters: Any = field(default_factory=dict[str, Any])


class GateChoice(_Part, frozen=True):
    """Who may become a candidate. ``min_confidence``: the default of the request's field.
    ``low_trust``: the least effective confidence, unless the request includes lower ones."""

    min_confidence: Fraction = 0.1
    low_trust: Fraction = 0.2
    include_contradicted: bool = True


class DiversityChoice(_Part, frozen=True):
    """Maximal marginal relevance over the best ``pool`` candidates. ``scale`` ``max`` divides
    scores by the highest before weighing them against similarities, so that both are in [0, 1]
    after any factors."""

    lambda_mmr: Fraction = msgspec.field(default=0.7, name="lambda")
    similarity: str = "jaccard"
    pool: Annotated[int, Meta(ge=1, le=POOL_MAX)] = 200
    scale: Literal["raw", "max"] = "max"


class PackingChoice(_Part, frozen=True):
    """``by``: whether the request's token budget counts, or only the number of facts. ``limit``:
    facts returned by default; ``limit_max``: the most that a request may ask for. ``skips_max``:
    how many candidates that do not fit may be skipped. ``parents``: whether to add parents of
    derived facts that still fit."""

    by: Literal["tokens", "count"] = "tokens"
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = LIMIT
    limit_max: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = LIMIT_MAX
    estimator: str = "value_bytes"
    skips_max: Annotated[int, Meta(ge=0, le=POOL_MAX)] = 0
    parents: bool = True


class CardsChoice(_Part, frozen=True):
    """``fast_path``: whether an entity's card may replace its facts if their mean effective
    confidence is at least ``min_avg_confidence``."""

    fast_path: bool = False
    min_avg_confidence: Fraction = 0.5


class Profile(_Part, frozen=True):
    """One document; after loading, ``parameters`` of stages and factors are parsed Structs. Without
    ``ambient``, ambient questions are refused; without ``certainty``, scores only order facts;
    without ``overview``, questions about a whole conversation are like others."""

    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_-]{0,63}$")]
    description: str
    stages: Annotated[tuple[StageChoice, ...], Meta(min_length=1)]
    depth: Annotated[int, Meta(ge=0, le=3)] = 1
    context: ConversationContext | None = None
    overview: Overview | None = None
    fusion: FusionChoice = FusionChoice()
    factors: Annotated[tuple[FactorChoice, ...], Meta(max_length=FACTORS_MAX)] = ()
    gate: GateChoice = GateChoice()
    diversity: DiversityChoice = DiversityChoice()
    packing: PackingChoice = PackingChoice()
    cards: CardsChoice = CardsChoice()
    ties: tuple[str, ...] = ("newest",)
    enrichment: tuple[str, ...] = ()
    ambient: Ambient | None = None
    certainty: Certainty | None = None

    @property
    def weights(self) -> dict[str, float]:
        """By key: of every stage, and of every factor that adds."""
        adding = {each.name: each.weight for each in self.factors if each.mode == "add"}
        return {each.name: each.weight for each in self.stages} | adding


@lru_cache(maxsize=32)
def profile_digest(profile: Profile) -> str:
    """SHA-256, as hex, of the validated document: profiles with equal digests rank alike."""
    return hashlib.sha256(msgspec.json.encode(profile, order="deterministic")).hexdigest()


def parse_profile(document: Mapping[str, Any] | bytes) -> Profile:
    """A checked profile from JSON bytes or the parsed document. Raises ProfileError: naming the
    path of the field and what is wrong with it."""
    if isinstance(document, bytes):
        try:
            document = msgspec.json.decode(document)
        except ValueError as fault:
            raise ProfileError("$", str(fault)) from fault
    profile = _convert(document, Profile, "$")
    names: tuple[tuple[str, str, Mapping[str, object]], ...] = (
        ("$.fusion.name", profile.fusion.name, FUSIONS),
        ("$.fusion.normalisation", profile.fusion.normalisation, NORMALISATIONS),
        ("$.diversity.similarity", profile.diversity.similarity, SIMILARITIES),
        ("$.packing.estimator", profile.packing.estimator, ESTIMATORS),
        *((f"$.ties[{n}]", name, TIES) for n, name in enumerate(profile.ties)),
        *((f"$.enrichment[{n}]", name, ENRICHMENTS) for n, name in enumerate(profile.enrichment)),
        *((f"$.stages[{n}].name", each.name, STAGES) for n, each in enumerate(profile.stages)),
        *((f"$.factors[{n}].name", each.name, FACTORS) for n, each in enumerate(profile.factors)),
    )
    for path, name, table in names:
        if name not in table:
            raise ProfileError(path, f"{name!r} is not one of {', '.join(sorted(table))}")
    _check_unique("stages", [each.name for each in profile.stages])
    _check_unique("factors", [each.name for each in profile.factors])
    profile = msgspec.structs.replace(
        profile,
        stages=tuple(
            _parse_parameters(each, STAGES[each.name].parameters, f"$.stages[{n}]")
            for n, each in enumerate(profile.stages)
        ),
        factors=tuple(
            _parse_parameters(each, FACTORS[each.name].parameters, f"$.factors[{n}]")
            for n, each in enumerate(profile.factors)
        ),
    )
    _check_stage_names(profile)
    return profile


def read_profile(document: Mapping[str, Any]) -> Profile:
    """A profile that an earlier release checked, as logs and exports have them. What this release
    does not know is left out; defaults stand in. Raises ProfileError if no profile is left."""
    first: ProfileError | None = None
    for _ in range(LEFT_OUT_MAX):
        try:
            return parse_profile(document)
        except ProfileError as fault:
            first = first or fault
            left = _left_out(document, fault)
            if left is None:
                break
            document = left
    assert first is not None
    raise first


def profile_names() -> list[str]:
    """Profiles that come with the node."""
    names = (path.name for path in files(_PACKAGE).joinpath("profiles").iterdir())
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


@cache
def load_profile(name: str) -> Profile:
    """A profile that comes with the node. Raises UnknownProfile."""
    return parse_profile(built_in_document(name))


def built_in_document(name: str) -> dict[str, Any]:
    """The document of a profile that comes with the node. Raises UnknownProfile."""
    if name not in profile_names():
        raise UnknownProfile(f"no recall profile {name!r}; there are {', '.join(profile_names())}")
    content = files(_PACKAGE).joinpath("profiles", f"{name}.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, Any])


_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"unknown field `(.+)`")


def _left_out(document: Mapping[str, Any], fault: ProfileError) -> dict[str, Any] | None:
    """The document without the field at fault, or without the stage or factor that it names. None
    if it lacks a field instead."""
    steps: list[Any] = [name or int(index) for name, index in _STEP.findall(fault.path)]
    if unknown := _UNKNOWN.search(fault.reason):
        steps.append(unknown[1])
    elif steps[-1:] == ["name"] and len(steps) > 1 and isinstance(steps[-2], int):
        steps.pop()
    if not steps or "missing required" in fault.reason:
        return None
    changed = part = copy.deepcopy(dict(document))
    for step in steps[:-1]:
        part = part[step]
    del part[steps[-1]]
    return changed


def _convert(document: Any, kind: type[Any], path: str) -> Any:
    try:
        return msgspec.convert(document, kind, strict=True)
    except msgspec.ValidationError as fault:
        reason, _, inner = str(fault).partition(" - at `$")
        raise ProfileError(path + inner.rstrip("`"), with_choices(reason, kind, inner)) from fault


def _parse_parameters(choice: Any, kind: type[Struct], path: str) -> Any:
    parameters = _convert(choice.parameters, kind, f"{path}.parameters")
    return msgspec.structs.replace(choice, parameters=parameters)


def _check_stage_names(profile: Profile) -> None:
    """Check that every stage named elsewhere exists, and comes earlier if another waits for it."""
    names = [each.name for each in profile.stages]
    for path, name in _stages_named(profile):
        if name not in names:
            raise ProfileError(path, f"{name!r} is not one of the profile's stages")
    for n, each in enumerate(profile.stages):
        filled = each.skipped_after
        if filled is not None and filled.stage not in names[:n]:
            path = f"$.stages[{n}].skipped_after.stage"
            raise ProfileError(path, f"{filled.stage!r} is not one of the stages before it")
    for n, each in enumerate(profile.stages):
        taken = {*names, *(other.label for other in profile.stages[:n])} - {each.name, ""}
        if each.label in taken:
            raise ProfileError(f"$.stages[{n}].label", f"{each.label!r} is given twice")


def _stages_named(profile: Profile) -> list[tuple[str, str]]:
    """Stage names by the path of the parameter that names them."""
    spoken = [(f"$.fusion.fixed[{n}]", name) for n, name in enumerate(profile.fusion.fixed)]
    for n, factor in enumerate(profile.factors):
        for parameter in NAMED_STAGES:
            name = getattr(factor.parameters, parameter, None)
            if name is not None:
                spoken.append((f"$.factors[{n}].parameters.{parameter}", name))
    return spoken


def _check_unique(part: str, names: list[str]) -> None:
    for n, name in enumerate(names):
        if name in names[:n]:
            raise ProfileError(f"$.{part}[{n}].name", f"{name!r} is given twice")
