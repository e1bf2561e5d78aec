"""The names that an export has written, for later lines, and the limits of what it may write."""

from bisect import bisect_right
from collections.abc import Iterable

from engramlog.eventlog.event import Recorded, fact_partition
from engramlog.eventlog.kinds import DeltaRejected, EpisodeRecorded, Parent
from engramlog.projections.arrays import Bool
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.episodes.reading_deltas import named_facts
from engramlog.projections.episodes.reading_rules import rule_places
from engramlog.projections.episodes.shown import Shown, hides
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View


class Sieve:
    """The rights of an export's caller: here everything, for the node's own tools. ``Readable``
    narrows them."""

    declarations = True
    """Whether they may know of all declarations, not only of those about readable facts."""

    def fact(self, _fact_id: str) -> bool:
        """Whether they may read a fact, ended or not."""
        return True

    def place(self, _scope: str, _garden_id: str | None) -> bool:
        """Whether they may read a scope, or a garden in it."""
        return True

    def episode(self, _episode: EpisodeRecorded) -> bool:
        """Whether they may read an episode."""
        return True

    def rejection(self, _delta: DeltaRejected) -> bool:
        """Whether they may read of a rejected delta."""
        return True

    def garden(self, _garden_id: str) -> bool:
        """Whether they are a member of a garden."""
        return True

    def rule(self, _rule_id: str) -> bool:
        """Whether they may read every episode that a rule has read."""
        return True


class Names:
    """Exported facts, episodes and gardens. ``values``: of a fact, the type and text of its value.
    ``slugs``: of gardens, by id."""

    def __init__(self, sieve: Sieve) -> None:
        self.sieve = sieve
        self.values: dict[str, tuple[str, str]] = {}
        self.slugs: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._live: dict[tuple[object, ...], set[str]] = {}
        self._content: dict[str, tuple[object, ...]] = {}
        self._episode_of_hash: dict[str, str] = {}
        self._episodes: set[str] = set()
        self._places: list[int] = []
        self._in_order: list[str] = []

    def add_fact(self, key: str, value: tuple[str, str], origin: str) -> None:
        self.values[key] = value
        self._origins[key] = origin

    def was_live(self, key: str, content: tuple[object, ...]) -> bool:
        """Whether an equal fact is live after the lines so far; this one is live from here on."""
        before = self._live.setdefault(content, set())
        live_before = bool(before)
        before.add(key)
        self._content[key] = content
        return live_before

    def note_ended(self, facts: Iterable[str]) -> None:
        for fact in facts:
            content = self._content.pop(fact, None)
            if content is not None:
                self._live[content].discard(fact)

    def origin(self, fact: str) -> str | None:
        """The node that stated a fact; None if it did not go out."""
        return self._origins.get(fact)

    def counts(self, event: Recorded, fact: str) -> bool:
        """Whether the fact went out and the event applies to it: the event is this node's own, or
        of the node that stated the fact."""
        origin = self._origins.get(fact)
        return origin is not None and (event.peer is None or origin == event.header.origin)

    def counting(self, event: Recorded, facts: Iterable[str]) -> list[str]:
        """The facts for which ``counts`` holds."""
        return [fact for fact in facts if self.counts(event, fact)]

    def ended(self, event: Recorded, facts: Iterable[str]) -> list[str]:
        """The facts that went out, if the event is this node's own. Remote retractions wait until
        an event of this node applies them."""
        return [] if event.peer is not None else [fact for fact in facts if fact in self._origins]

    def parent(self, parent: Parent) -> str | Parent:
        """An entry of ``derived_from``: a key, if the fact or episode went out."""
        if parent.fact_id is not None and parent.fact_id in self.values:
            return parent.fact_id
        return self._episode_of_hash.get(parent.hash, parent)

    def add_episode(self, key: str, hash: str, position: int) -> None:
        self._episode_of_hash[hash] = key
        self._episodes.add(key)
        self._places.append(position)
        self._in_order.append(key)

    def episodes(self, keys: Iterable[str]) -> list[str]:
        """The episodes that went out."""
        return [key for key in keys if key in self._episodes]

    def last_episode(self, position: int) -> str | None:
        """The last one up to a position."""
        found = bisect_right(self._places, position)
        return self._in_order[found - 1] if found else None

    def garden(self, garden_id: str | None) -> str | None:
        return None if garden_id is None else self.slugs.get(garden_id, garden_id)


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
