"""The part of a log that a caller may export: everything they may read, and no more."""

from engramlog.api.transfer.export_names import Sieve
from engramlog.eventlog.event import fact_partition
from engramlog.eventlog.kinds import DeltaRejected, EpisodeRecorded
from engramlog.projections.arrays import Bool
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.episodes.reading_deltas import named_facts
from engramlog.projections.episodes.reading_rules import rule_places
from engramlog.projections.episodes.shown import Shown, hides
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View


class Readable(Sieve):
    """The facts, episodes and gardens of a caller, as of a view.

    ``declarations``: whether declarations go with it (only admins may request this).
    """

    def __init__(
        self, reader: Reader, view: View, rights: Authorization, *, declarations: bool
    ) -> None:
        self.declarations = declarations
        self._reader = reader
        self._rights = rights
        self._view = view
        self._shown = Shown(view, rights)
        self._mask: Bool = rights.mask(view)
        self._rules = reader.ask(rule_places, view.position)

    def renew(self) -> bool:
        """Hide from here on what is hidden now; whether every fact is still readable."""
        view = self._reader.pin()
        if view.position == self._view.position:
            return True
        self._view, self._shown = view, Shown(view, self._rights)
        return not (self._mask & ~self._rights.mask(view)[: len(self._mask)]).any()

    def fact(self, fact_id: str) -> bool:
        slot = self._reader.slot_of(fact_id)
        return slot is not None and slot < len(self._mask) and bool(self._mask[slot])

    def place(self, scope: str, garden_id: str | None) -> bool:
        """A right limited to some entities does not include people's own words."""
        rights = self._rights
        if rights.entities or rights.ceiling < OPEN_CLASS or scope not in rights.scopes:
            return False
        return not rights.only_gardens if garden_id is None else self.garden(garden_id)

    def episode(self, episode: EpisodeRecorded) -> bool:
        where = (episode.user, episode.agent, episode.session, episode.scope)
        return self.place(episode.scope, episode.garden_id) and not hides(
            self._view.hiding, *where, episode.metadata
        )

    def rejection(self, delta: DeltaRejected) -> bool:
        if not self.place(delta.scope, delta.garden_id):
            return False
        if delta.reason == "missing":
            return True
        partition = fact_partition(delta.scope, delta.garden_id)
        named = self._reader.ask(named_facts, partition, delta.replaces)
        return self._shown.rejection(named, {"message": delta.message})

    def garden(self, garden_id: str) -> bool:
        return self._rights.every_garden or garden_id in self._rights.gardens

    def rule(self, rule_id: str) -> bool:
        places = self._rules.get(rule_id)
        return bool(places) and all(self.place(*place) for place in places)
