"""How a delta writes a fact: always with its provenance.

A payload cannot claim another provenance, and the bundle's values are checked texts. The fact names
its episodes by the hashes of their events.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted, Parent
from engramlog.projections.cid import with_cid
from engramlog.projections.episodes.provenance_bundle import bundle_of
from engramlog.projections.episodes.stating import StatedFact
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.writing.decide.context import Context


class ProvenFact(Struct, frozen=True, gc=False):
    """A drafted fact, its id, and its provenance as the log will hold it."""

    draft: Draft
    fact_id: str
    provenance: dict[str, str]


def assert_with_provenance(
    statement: StatedFact,
    place: MemoryPlace,
    source: str,
    bundle: Mapping[str, object],
    context: Context,
    *,
    confidence: float,
    episodes: Sequence[str],
    cause: bytes | None,
) -> ProvenFact:
    """Draft a fact that a delta states.

    Args:
        statement: its content, from ``stating.statement_of``.
        place: scope, garden and owner.
        source: who states it, in stored form.
        bundle: ``provenance_bundle.BUNDLE_KEYS``.
        context: of the decision.
        confidence: in (0, 1].
        episodes: hashes of the episodes behind it.
        cause: the event of the delta.

    Raises:
        ProvenanceError: the bundle breaks the rules.
    """
    provenance = bundle_of(bundle)
    payload = FactAsserted(
        entity=statement.entity,
        relation=statement.relation,
        value=statement.value,
        source=source,
        scope=place.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        confidence=confidence,
        derived_from=[Parent(hash=each) for each in episodes],
        garden_id=place.garden_id,
    )
    draft = context.draft(with_cid(payload), fact_partition(place.scope, place.garden_id), cause)
    fact_id = id_text(draft.event_id)
    key = (statement.entity, statement.relation, place.scope, place.garden_id)
    # Later asserts of this group must find the key; the memory image shows it only afterwards.
    context.undecided.touched.add(key)
    return ProvenFact(draft, fact_id, provenance)
