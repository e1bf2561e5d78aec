"""The memory image: the columns that every query filters by, in memory, in parts.

Each part is in the file of its projection (``projections.tables``). It is loaded from the tables at
start, then folded from published events. Only the writer's thread changes it; readers pin a
``View`` at a published position and never wait.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path

import apsw
import numpy as np
from msgspec import Struct

from engramlog.eventlog.event import Recorded, UnknownPayload
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactErased
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.columns.names.entity_names import EntityNames, NameWords
from engramlog.projections.columns.names.machine_names import MachineNames
from engramlog.projections.columns.names.name_signatures import NameSignatures
from engramlog.projections.columns.remembered_answers import Remembered
from engramlog.projections.columns.sealed_facts import FactsCut, cut_of, restore, sections_of, unmap
from engramlog.projections.columns.simhash import TextSignatures, signers
from engramlog.projections.columns.spoken_texts import SpokenTexts
from engramlog.projections.image.content_terms import ContentTerms
from engramlog.projections.image.fact_texts import FactTexts
from engramlog.projections.image.table_tail import TableTail
from engramlog.projections.sealed_sections import Laid, Sections
from engramlog.projections.tables.conflicts.denials import DenialsPart
from engramlog.projections.tables.conflicts.resolutions import ResolutionsPart
from engramlog.projections.tables.database import open_reader, tables_position
from engramlog.projections.tables.declared.gardens import GardensPart
from engramlog.projections.tables.declared.policies import SetValuedPart
from engramlog.projections.tables.declared.trust import TrustPart
from engramlog.projections.tables.facts.attributes import AttributesPart
from engramlog.projections.tables.facts.decay import DecayPart
from engramlog.projections.tables.facts.derivations import DerivationsPart
from engramlog.projections.tables.facts.erasures import ErasedPart
from engramlog.projections.tables.facts.facts import FactsPart
from engramlog.projections.tables.facts.tombstones import TombstonesPart
from engramlog.projections.tables.facts.verdicts import VerdictsPart
from engramlog.projections.tables.peers.protocol_facts import admitted
from engramlog.projections.tables.peers.refused_events import RefusedPart, meaning
from engramlog.projections.tables.peers.remote_retractions import is_remote_end
from engramlog.projections.tables.projector import ImagePart, SmallPart
from engramlog.projections.tables.recalls.access_counts import AccessPart
from engramlog.projections.tables.recalls.feedback import FeedbackPart

ANSWERS_KEPT_MAX = 8
"""Sets of survivors that recall caches; one of a million facts takes 5 MB."""


class ImageCut(Struct, frozen=True):
    """An image's state at a position: its small values, and the sizes of the rest."""

    facts: FactsCut
    classification: bytes
    parts: dict[str, bytes]
    erasures: int

    @property
    def position(self) -> int:
        """The image holds every event up to here."""
        return self.facts.position


class MemoryImage:
    """The memory image. Readers may see ``published`` slots up to ``position``.

    Attributes:
        erasures: how often facts were erased since this image was made.
        facts_position: the last event that changed more than how often recalls returned facts.
        parts: by name, in the order in which they load and fold: a part may use earlier ones.
        facts: the columns, names and slot lists that the parts share.
        tail: events that the image shows before the tables do.
    """

    def __init__(self) -> None:
        self.published = self.position = self.facts_position = self.erasures = 0
        self._sections: Sections | None = None
        self.tail = TableTail()
        self.facts = facts = FactColumns()
        self.trust = TrustPart(facts.sources)
        self.decay = DecayPart()
        self.set_valued = SetValuedPart()
        self.gardens = GardensPart(facts)
        self.erased = ErasedPart()
        self.refused = RefusedPart()
        self.attributes = AttributesPart(facts)
        self.derivations = DerivationsPart(facts)
        self.resolutions = ResolutionsPart(facts)
        self.denials = DenialsPart(facts)
        self.tombstones = TombstonesPart(facts, self.resolutions)
        self.verdicts = VerdictsPart(facts)
        self.accesses = AccessPart(facts)
        self.feedback = FeedbackPart(facts)
        before: dict[str, SmallPart] = {
            "trust": self.trust,
            "decay": self.decay,
            "set_valued": self.set_valued,
        }
        after: dict[str, SmallPart] = {
            "gardens": self.gardens,
            "erased": self.erased,
            "refused": self.refused,
            "attributes": self.attributes,
            "derivations": self.derivations,
            "resolutions": self.resolutions,
            "denials": self.denials,
            "tombstones": self.tombstones,
            "verdicts": self.verdicts,
            "accesses": self.accesses,
            "feedback": self.feedback,
        }
        own = FactsPart(facts, self.trust, self.decay)
        self._small = before | after
        self.parts: dict[str, ImagePart] = {**before, "facts": own, **after}
        counting = (self.accesses, self.feedback)
        self._facts_kinds = {
            kind for part in self.parts.values() if part not in counting for kind in part.kinds
        }
        self._folding: dict[str, list[ImagePart]] = defaultdict(list)
        for part in self.parts.values():
            for kind in part.kinds:
                self._folding[kind].append(part)
        # A peer's retraction takes effect through a local event; notes are linked at once.
        self._remote: dict[str, list[ImagePart]] = {
            "conflict_resolved": [self.resolutions, self.tombstones]
        }
        self.names = EntityNames(facts.entities)
        self.source_words = NameWords(facts.sources)
        self.name_signatures = NameSignatures()
        self.remembered = Remembered(ANSWERS_KEPT_MAX)
        self._drop_text_caches()

    def load(self, db: apsw.Connection, position: int) -> None:
        """Load everything from the tables, whose position is ``position``."""
        for part in self.parts.values():
            part.load(db)
        self._publish(position, position)

    def apply(self, events: Sequence[Recorded], position: int) -> None:
        """Apply committed events and publish ``position``."""
        start = 0
        hiding = self.tombstones.hiding
        for index, event in enumerate(events):
            if isinstance(event.payload, FactErased):  # later events read what it erased
                self._fold(events[start : index + 1])
                start = index + 1
        self._fold(events[start:])
        if hiding is not self.tombstones.hiding:
            self.remembered.clear()
        changing = (event.position for event in events if event.header.kind in self._facts_kinds)
        self._publish(position, max(changing, default=self.facts_position))

    def cut(self) -> ImageCut:
        """The image's state. Call in the writer's thread; ``sections`` gives the large arrays, in
        any thread and while events are folded."""
        facts = self.facts
        return ImageCut(
            facts=cut_of(facts, self.position, self.trust.sources()),
            classification=facts.arrays["classification"][: facts.count].tobytes(),
            parts={name: part.state() for name, part in self._small.items()},
            erasures=self.erasures,
        )

    def sections(self, cut: ImageCut) -> Iterator[Laid]:
        """The large arrays of a cut. Discard them if facts were erased meanwhile."""
        return sections_of(self.facts, cut.facts, np.frombuffer(cut.classification, dtype=np.int8))

    def restore(self, cut: ImageCut, sections: Sections) -> None:
        """Restore a written cut, in place of ``load``. Raises SealedFault, msgspec.MsgspecError: it
        cannot be read; discard the image."""
        restore(self.facts, cut.facts, sections)
        for name, part in self._small.items():
            part.restore(cut.parts.get(name, b""))
        self._sections = sections
        self._publish(cut.position, cut.position)

    def unmap(self) -> Callable[[], object | None]:
        """Move everything from the restored file, if any, into this process's memory. Call in the
        writer's thread. The returned function gives None once nothing uses the file's map; current
        readers may still use it."""
        sections, self._sections = self._sections, None
        if sections is None:
            return lambda: None
        unmap(self.facts, sections)
        self.remembered.clear()
        return sections.held()

    def _fold(self, events: Sequence[Recorded]) -> None:
        seen = [
            event
            for event in admitted(
                meaning(events, self.refused.places.__contains__), self._position_of_event
            )
            if event.payload is not None and type(event.payload) is not UnknownPayload
        ]
        for kind, remote, of_kind in _runs(seen):
            for part in (self._remote if remote else self._folding).get(kind, ()):
                part.fold(of_kind)
            if kind == "fact_erased" and not remote:
                self._forget(of_kind)

    def _forget(self, erasures: Sequence[Recorded]) -> None:
        """Let every part drop its data of erased facts, the facts' part last."""
        gone = {
            fact: slot
            for event in erasures
            if isinstance(event.payload, FactErased)
            for fact in event.payload.fact_ids
            if (slot := self.facts.slot_of.get(fact)) is not None
        }
        for part in reversed(self.parts.values()):
            part.forget(gone)
        self.tombstones.hide(self.tombstones.hiding.tombstones)
        self.erasures += 1
        self.remembered.clear()
        self._drop_text_caches()

    def _drop_text_caches(self) -> None:
        """Drop the caches over texts; the next question builds them again."""
        facts = self.facts
        self.simhashes = {n: TextSignatures(sign) for n, sign in signers(facts.tokenize).items()}
        self.texts = FactTexts(facts.entities, facts.relations, facts.said, self.attributes.by_slot)
        self.machines = MachineNames(facts.entities)
        self.machine_sources = MachineNames(facts.sources)
        self.machine_relations = MachineNames(facts.relations)
        self.spoken = SpokenTexts(facts.said)
        self.content_terms = ContentTerms(facts.entities, facts.relations, facts.tokenize)

    def _position_of_event(self, event_id: bytes) -> int | None:
        fact = id_text(event_id)
        slot = self.facts.slot_of.get(fact)
        if slot is None:  # an erased fact is not admitted again
            return 0 if fact in self.erased.facts else None
        return int(self.facts.arrays["from_position"][slot])

    def _publish(self, position: int, facts_position: int) -> None:
        self.facts_position = facts_position  # first, as a view reads it last
        self.published = self.facts.count
        self.position = position


def loaded_at_once(path: Path) -> MemoryImage:
    """An image of one state of a table file that another connection may be writing."""
    image = MemoryImage()
    with closing(open_reader(path)) as db, db:
        image.load(db, tables_position(db))
    return image


def _runs(events: Sequence[Recorded]) -> Iterator[tuple[str, bool, Sequence[Recorded]]]:
    """Runs of one kind in log order, and whether they are peers' ends of facts."""
    if len({(event.header.kind, event.peer) for event in events}) == 1:  # most groups of writes
        yield events[0].header.kind, is_remote_end(events[0]), events
        return
    by_kind = groupby(events, key=lambda event: (event.header.kind, is_remote_end(event)))
    for (kind, remote), run in by_kind:
        yield kind, remote, list(run)
