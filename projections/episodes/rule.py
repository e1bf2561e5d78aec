"""A consolidation rule: a validated document that defines which episodes become which facts.

``reads`` are the episodes of one scope, or of one garden in it. Without ``matchers`` the classifier
decides (``classifying``); with them, the first that matches an episode. A rule contains no code and
no SQL.
"""

import re
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from engramlog.eventlog.kinds import DeltaKind, Scope
from engramlog.projections.allowed_values import with_choices
from engramlog.projections.episodes.cadence import Cadence, CadenceError, parse_cadence
from engramlog.projections.episodes.pattern_cost import ManyWays, check_cost
from engramlog.projections.episodes.salience import DAY_S, SalienceWeights
from engramlog.projections.normalization import normalize_uri

MATCHERS_MAX = 200
CONDITIONS_MAX = 20
SLOTS = frozenset({"subject", "predicate", "object", "content", "id"})
FIELDS = frozenset(
    {
        "content", "user", "session", "agent", "source_node", "run_id", "subject", "predicate",
        "object", "intent", "salience", "access_count",
    }
)  # fmt: skip
METADATA = "metadata."

RuleId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,126}$")]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
Operator: TypeAlias = Literal["eq", "ne", "in", "regex", "gte", "lte", "exists"]


class RuleError(ValueError):
    """A rule document is wrong. ``path`` is the field at fault, as ``$.cadence``."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Base of all parts of a document."""


class Condition(_Part, frozen=True):
    """One test of an episode; ``field`` is one of ``FIELDS`` or ``metadata.NAME``."""

    field: str
    op: Operator = "eq"
    value: Any = None


class Then(_Part, frozen=True):
    """What a match emits. In the texts of ``fact``, ``{content}``, ``{subject}``,
    ``{metadata.NAME}`` and named groups of a regex (``{group.NAME}``) are filled in."""

    emit: DeltaKind
    fact: dict[str, str] = field(default_factory=dict)
    replaces: str | None = None
    confidence: Fraction = 1.0


class Matcher(_Part, frozen=True):
    """All of ``when`` must be true. Higher ``salience`` comes first, then the smaller ``id``."""

    id: RuleId
    then: Then
    when: Annotated[list[Condition], Meta(max_length=CONDITIONS_MAX)] = field(default_factory=list)
    salience: int = 0


class ConsolidationGate(_Part, frozen=True):
    """Episodes below ``threshold`` are skipped (they stay in the log)."""

    threshold: Annotated[float, Meta(ge=0.0, le=2.0)] = 0.0
    scorer: str = "rule_based"
    frequency: Literal["add", "mul"] = "add"
    tau_seconds: Annotated[float, Meta(gt=0.0)] = DAY_S
    weights: SalienceWeights = SalienceWeights()


class Rule(_Part, frozen=True):
    """One rule. ``cadence`` in its document form; ``timetable`` is its parsed form. ``user`` and
    ``agent`` limit the episodes read. ``source``: who states the facts; by default the episode's
    source. ``single_valued`` relations refuse a second value."""

    id: RuleId
    cadence: Any
    description: Annotated[str, Meta(max_length=4096)] = ""
    scope: Scope = "local"
    garden_id: str | None = None
    user: str | None = None
    agent: str | None = None
    source: str | None = None
    matchers: Annotated[list[Matcher], Meta(max_length=MATCHERS_MAX)] = field(default_factory=list)
    salience: ConsolidationGate = ConsolidationGate()
    single_valued: Annotated[list[str], Meta(max_length=100)] = field(default_factory=list)
    peers: bool = False
    enabled: bool = True

    @property
    def timetable(self) -> Cadence:
        """When it fires."""
        return parse_cadence(self.cadence)

    @property
    def version(self) -> str:
        """16 hex digits over the settings that affect a rule's facts, not its timing."""
        said = [self.matchers, self.salience, self.source, self.single_valued]
        return sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:16]

    def document(self) -> dict[str, Any]:
        """The form in the log, with the cadence normalised."""
        made = msgspec.to_builtins(self)
        return {**made, "cadence": self.timetable.document()}


def new_rule(document: object) -> Rule:
    """``parse_rule`` for a rule to install. Refuses regular expressions that may take forever, of
    which the log may hold earlier ones. Raises RuleError."""
    rule = parse_rule(document)
    for n, matcher in enumerate(rule.matchers):
        for m, condition in enumerate(matcher.when):
            if condition.op == "regex":
                try:
                    check_cost(condition.value)
                except ManyWays as fault:
                    raise RuleError(f"$.matchers[{n}].when[{m}].value", str(fault)) from fault
    return rule


def parse_rule(document: object) -> Rule:
    """A rule from its document. Raises RuleError."""
    try:
        rule = msgspec.convert(document, Rule)
    except msgspec.ValidationError as fault:
        reason, _, path = str(fault).partition(" - at `")
        raise RuleError(path.rstrip("`") or "$", with_choices(reason, Rule, path)) from fault
    try:
        cadence = rule.timetable
    except CadenceError as fault:
        raise RuleError("$.cadence", str(fault)) from fault
    if rule.source is not None:
        try:
            normalize_uri(rule.source)
        except ValueError as fault:
            raise RuleError("$.source", str(fault)) from fault
    if rule.salience.scorer != "rule_based":
        raise RuleError("$.salience.scorer", f"no scorer is called {rule.salience.scorer!r}")
    for index, matcher in enumerate(rule.matchers):
        _check_matcher(f"$.matchers[{index}]", matcher)
    names = [matcher.id for matcher in rule.matchers]
    if len(set(names)) != len(names):
        raise RuleError("$.matchers", "ids must differ")
    return msgspec.structs.replace(rule, cadence=cadence.document())


def _check_matcher(path: str, matcher: Matcher) -> None:
    for index, condition in enumerate(matcher.when):
        _check_condition(f"{path}.when[{index}]", condition)
    then = matcher.then
    unknown = sorted(then.fact.keys() - SLOTS)
    if unknown:
        raise RuleError(f"{path}.then.fact", f"has no slot {unknown[0]!r}")
    if then.emit in ("add", "update") and not {"object", "content"} & then.fact.keys():
        raise RuleError(f"{path}.then.fact", "must say 'object' or 'content'")
    if then.emit in ("update", "delete") and then.replaces is None:
        raise RuleError(f"{path}.then.replaces", "must say what is replaced")
    if then.emit in ("add", "update") and then.confidence == 0.0:
        raise RuleError(f"{path}.then.confidence", "must be above 0 where a fact is stated")


def _check_condition(path: str, condition: Condition) -> None:
    name, value = condition.field, condition.value
    if name not in FIELDS and not (name.startswith(METADATA) and len(name) > len(METADATA)):
        raise RuleError(f"{path}.field", f"no episode has a field {name!r}")
    if condition.op == "in" and not isinstance(value, list):
        raise RuleError(f"{path}.value", "must be a list")
    if condition.op in ("gte", "lte") and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        raise RuleError(f"{path}.value", "must be a number")
    if condition.op == "exists" and not isinstance(value, bool):
        raise RuleError(f"{path}.value", "must be true or false")
    if condition.op == "regex":
        if not isinstance(value, str):
            raise RuleError(f"{path}.value", "must be a regular expression")
        try:
            re.compile(value)
        except (re.error, OverflowError, RecursionError) as fault:
            raise RuleError(f"{path}.value", f"is no regular expression: {fault}") from fault
