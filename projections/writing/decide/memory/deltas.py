"""Applying deltas: one atomic batch of events that add, replace and end facts.

A delta that was applied before gets its earlier answer. Conflicts are found before a delta drafts
anything: in a strict batch the first conflict rejects the batch (only the rejection is recorded);
otherwise it rejects its own delta.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.kinds import AppliedDelta, DeltaApplied, DeltaRejected, FactRetracted
from engramlog.projections.episodes.delta import (
    AddDelta,
    ConsolidationRuleError,
    FactConflictError,
    Proposal,
    check_delta,
    kind_of_delta,
    payload_of,
    replaced_by,
)
from engramlog.projections.episodes.provenance_bundle import ProvenanceError, as_label
from engramlog.projections.episodes.stating import StatedFact, statement_of
from engramlog.projections.normalization import matches_label
from engramlog.projections.writing import memory_commands as ask
from engramlog.projections.writing.commands import CommandRefused, Refused
from engramlog.projections.writing.decide.authority import source_forbidden
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_writing
from engramlog.projections.writing.decide.facts.assert_with_provenance import assert_with_provenance
from engramlog.projections.writing.decide.memory.delta_book import DeltaBook, DeltaFact

DELTAS_PER_EVENT = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOLERATED = frozenset({"missing", "already_retracted", "scope_mismatch"})
"""Conflicts that a non-strict batch ignores: the target is no fact of this user and agent."""


def apply_deltas(command: ask.ApplyDeltas, context: Context) -> Decision:
    """``detail.results``: for each delta its id, status (``applied``, ``known``, ``rejected``),
    fact and warnings; ``detail.conflict`` if a strict batch was refused. Raises CommandRefused."""
    check_writing(context, command.rights, command.garden_id, command.scope)
    batch = _Batch(command, context)
    for proposals in _slices(command.proposals):
        conflict = batch.take(proposals)
        if conflict is not None:
            return conflict
    retracted = tuple(each for result in batch.results for each in result["retracted"])
    return Decision(batch.drafts, retracted=retracted, detail={"results": batch.results})


def _slices(proposals: Sequence[Proposal]) -> Iterator[Sequence[Proposal]]:
    for start in range(0, len(proposals), DELTAS_PER_EVENT):
        yield proposals[start : start + DELTAS_PER_EVENT]


class _Batch:
    """The drafts of a batch, slice by slice."""

    def __init__(self, command: ask.ApplyDeltas, context: Context) -> None:
        self.drafts: list[Draft] = []
        self.results: list[dict[str, Any]] = []
        self._command = command
        self._context = context
        self._partition = fact_partition(command.scope, command.garden_id)
        self._book = DeltaBook(command, context)
        self._claimed: set[str] = set()
        self._event_id = b""
        self._ended: list[str] = []
        self._facts: list[Draft] = []

    def take(self, proposals: Sequence[Proposal]) -> Decision | None:
        """Apply a slice as one event; returns the conflict of a strict batch, if any. Raises
        CommandRefused."""
        self._event_id = b""
        self._ended, self._facts = [], []
        applied: list[AppliedDelta] = []
        rejections: list[Draft] = []
        for proposal in proposals:
            known = self._book.known(proposal)
            if known is not None:
                self._answer(proposal, "known", known.fact_id, known.retracted)
                continue
            try:
                check_delta(proposal.delta)
                applied.append(self._apply(proposal))
            except (ConsolidationRuleError, ProvenanceError) as fault:
                if self._command.strict:
                    field = f"deltas.{len(self.results)}"
                    raise CommandRefused(Refused("invalid_delta", str(fault), field)) from fault
                rejections.append(self._reject(proposal, "invalid", str(fault)))
            except CommandRefused as fault:
                if self._command.strict:
                    raise
                refused = fault.refused
                rejections.append(self._reject(proposal, refused.code, refused.message))
            except FactConflictError as conflict:
                rejection = self._reject(proposal, conflict.reason, str(conflict))
                if self._command.strict:
                    detail = {
                        "reason": conflict.reason,
                        "message": str(conflict),
                        "index": len(self.results) - 1,
                        "delta_id": proposal.delta_id,
                    }
                    return Decision([rejection], detail={"conflict": detail, "results": []})
                rejections.append(rejection)
        if applied:
            self.drafts += [self._event(applied), *self._retraction(), *self._facts]
        self.drafts += rejections
        return None

    @property
    def _cause(self) -> bytes:
        """The id of this slice's event: assigned with the first fact that it states or ends."""
        if not self._event_id:
            self._event_id = self._context.identifiers.next(self._context.now_us)
        return self._event_id

    def _event(self, applied: list[AppliedDelta]) -> Draft:
        payload = DeltaApplied(
            scope=self._command.scope,  # pyright: ignore[reportArgumentType]  # validated before
            deltas=applied,
            garden_id=self._command.garden_id,
            run_id=self._command.run_id,
        )
        return Draft(payload, self._partition, self._cause, self._context.actor)

    def _retraction(self) -> list[Draft]:
        """The end of older facts, as one event before the new ones, so that an old fact and its
        replacement are never live together."""
        if not self._ended:
            return []
        payload = FactRetracted(fact_ids=self._ended, reason="replaced")
        return [self._context.draft(payload, self._partition, self._cause)]

    def _apply(self, proposal: Proposal) -> AppliedDelta:
        """End the facts that a delta replaces and draft the one that it states; the delta as the
        log will hold it. Raises ConsolidationRuleError, ProvenanceError: its payload breaks a rule;
        FactConflictError: the facts have changed; CommandRefused: the caller may not end one."""
        delta, place = proposal.delta, proposal.place
        payload = payload_of(delta)
        statement = None
        if payload is not None:
            try:
                statement = statement_of(payload, place, inherited=proposal.inherited)
            except ProvenanceError:
                raise
            except ValueError as fault:
                kind = kind_of_delta(delta)
                raise ConsolidationRuleError(delta.rule_id, kind, str(fault)) from fault
        ended, warnings = self._replaced(proposal, statement)
        fact_id, provenance = None, {}
        if statement is not None:
            ended, kept = self._pinned(proposal, statement, ended)
            self._check_authority(proposal, ended)
            self._check_rival(proposal, statement, ended)
            self._end(ended)
            fact_id, provenance = self._state(proposal, statement, kept)
        else:
            self._check_authority(proposal, ended)
            self._end(ended)
        retracted = tuple(fact.fact_id for fact in ended)
        self._book.note(proposal, fact_id, retracted)
        self._answer(proposal, "applied", fact_id, retracted, warnings)
        return AppliedDelta(
            delta_id=proposal.delta_id,
            delta=kind_of_delta(delta),
            user=place.user,
            agent=place.agent,
            rule_id=delta.rule_id,
            source_episode_ids=delta.source_episode_ids,
            promotion_us=delta.promotion_us,
            confidence=delta.confidence,
            replaces=replaced_by(delta),
            name=None if statement is None else statement.name,
            subject=None if statement is None else statement.subject,
            predicate=None if statement is None else statement.predicate,
            fact_id=fact_id,
            retracted=list(retracted),
            payload={} if statement is None else statement.rest,
            provenance=provenance,
            lineage=proposal.lineage,
        )

    def _replaced(
        self, proposal: Proposal, statement: StatedFact | None
    ) -> tuple[list[DeltaFact], list[str]]:
        """The facts that a delta replaces, and warnings. Raises FactConflictError."""
        names, delta_id = replaced_by(proposal.delta), proposal.delta_id
        if len(set(names)) != len(names):
            raise FactConflictError("duplicate_replaces", "replaces names a fact twice", delta_id)
        if statement is not None and statement.name in names:
            raise FactConflictError(
                "self_replace", "the new fact is among those it replaces", delta_id
            )
        replaced: list[DeltaFact] = []
        warnings: list[str] = []
        for name in names:
            try:
                fact = self._book.find(name, proposal)
                self._check_version(proposal, fact)
            except FactConflictError as conflict:
                claimed = self._book.newest(name, proposal)
                if self._command.strict and claimed and claimed.fact_id in self._claimed:
                    message = f"two deltas of the batch replace {name!r}"
                    raise FactConflictError("batch_overlap", message, delta_id) from conflict
                if self._command.strict or conflict.reason not in _TOLERATED:
                    raise
                warnings.append(f"{conflict.reason}: {conflict}")
                continue
            if fact in replaced:
                raise FactConflictError(
                    "duplicate_replaces", "replaces names a fact twice", delta_id
                )
            replaced.append(fact)
        return replaced, warnings

    def _check_version(self, proposal: Proposal, fact: DeltaFact) -> None:
        expected = getattr(proposal.delta, "expected_version", None)
        version = self._book.version(fact, proposal.place)
        if expected is not None and expected != version:
            raise FactConflictError(
                "stale_version",
                f"fact {fact.name!r} has version {version}, not {expected}",
                proposal.delta_id,
            )

    def _pinned(
        self, proposal: Proposal, statement: StatedFact, ended: list[DeltaFact]
    ) -> tuple[list[DeltaFact], DeltaFact | None]:
        """The facts that end, and the one that stays because its source states it again under its
        name. A fact that the delta may not end keeps its name, too."""
        if statement.name is None:
            return ended, None
        standing = self._book.newest(statement.name, proposal)
        if standing is None or not standing.live or standing.name != statement.name:
            return ended, None
        if not self._book.may_end(standing.source, proposal):
            return ended, None
        same = standing.says(statement) and standing.confidence == proposal.delta.confidence
        if same and standing.source == proposal.source:
            return ended, standing if standing.ours else None
        return [*ended, standing], None

    def _check_authority(self, proposal: Proposal, ended: list[DeltaFact]) -> None:
        """Check that the delta may end these facts."""
        for fact in ended:
            if not self._book.may_end(fact.source, proposal):
                raise source_forbidden(fact.source)

    def _check_rival(
        self, proposal: Proposal, statement: StatedFact, ended: list[DeltaFact]
    ) -> None:
        if not isinstance(proposal.delta, AddDelta) or ended:
            return
        patterns = self._command.single_valued
        if not any(matches_label(pattern, statement.relation) for pattern in patterns):
            return
        rival = self._book.rival(statement, proposal)
        if rival is not None:
            raise FactConflictError(
                "contradiction",
                f"{statement.relation!r} has one value, and fact {rival} says another",
                proposal.delta_id,
            )

    def _end(self, ended: list[DeltaFact]) -> None:
        fresh = [fact.fact_id for fact in ended if fact.fresh]
        if fresh:
            payload = FactRetracted(fact_ids=fresh, reason="replaced")
            self._facts.append(self._context.draft(payload, self._partition, self._cause))
        self._ended += [fact.fact_id for fact in ended if not fact.fresh]
        for fact in ended:
            fact.live = False
            self._claimed.add(fact.fact_id)

    def _state(
        self, proposal: Proposal, statement: StatedFact, kept: DeltaFact | None
    ) -> tuple[str, dict[str, str]]:
        """The id of the fact that a delta states, drafted unless ``kept`` says it already, and its
        provenance."""
        if kept is not None:
            return kept.fact_id, {}
        delta, place = proposal.delta, proposal.place
        proven = assert_with_provenance(
            statement,
            place,
            proposal.source,
            self._bundle(proposal),
            self._context,
            confidence=delta.confidence,
            episodes=self._book.hashes(proposal),
            cause=self._cause,
        )
        self._facts.append(proven.draft)
        self._book.state(proven.fact_id, proposal, statement)
        return proven.fact_id, proven.provenance

    def _bundle(self, proposal: Proposal) -> dict[str, object]:
        delta = proposal.delta
        bundle: dict[str, object] = {
            "origin": "delta",
            "source": as_label(delta.rule_id),
            "confidence": Decimal(str(delta.confidence)),
            "timestamp": _EPOCH + timedelta(microseconds=delta.promotion_us),
        }
        if self._command.run_id is not None:
            bundle["run_id"] = self._command.run_id
        return {**bundle, **self._command.bundle}

    def _answer(
        self,
        proposal: Proposal,
        status: str,
        fact_id: str | None = None,
        retracted: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        self.results.append(
            {
                "delta_id": proposal.delta_id,
                "kind": kind_of_delta(proposal.delta),
                "status": status,
                "fact_id": fact_id,
                "retracted": list(retracted),
                "warnings": list(warnings),
            }
        )

    def _reject(self, proposal: Proposal, reason: str, message: str) -> Draft:
        """Answer that a delta is rejected, and draft the event that records it."""
        self._answer(proposal, "rejected", warnings=[f"{reason}: {message}"])
        delta, place = proposal.delta, proposal.place
        payload = DeltaRejected(
            scope=place.scope,  # pyright: ignore[reportArgumentType]  # validated before
            delta_id=proposal.delta_id,
            delta=kind_of_delta(delta),
            user=place.user,
            agent=place.agent,
            rule_id=delta.rule_id,
            source_episode_ids=delta.source_episode_ids,
            reason=reason,
            replaces=replaced_by(delta),
            message=message,
            garden_id=place.garden_id,
            run_id=self._command.run_id,
        )
        return self._context.draft(payload)
