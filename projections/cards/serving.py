"""Serving cards: cached, stale, or written on demand.

The reader's rights and Moment determine the card's text. A cached card is served only if it has
that text, or with the mark that it is stale. The seeds' triggers (§20.4.3) queue a refresh, which
warms the cache and changes no exact answer.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    ConflictResolved,
    FactAsserted,
    FactAttributesSet,
    FactDenied,
    FactErased,
    FactRetracted,
)
from engramlog.projections.authorization import Authorization
from engramlog.projections.cards.cache import CachedCard, CardCache
from engramlog.projections.cards.content import Card
from engramlog.projections.cards.generator import Rows, card_of
from engramlog.projections.cards.inputs import AskedCard, CardInputs, card_inputs
from engramlog.projections.cards.queue import QUEUE_MAX, CardQueue
from engramlog.projections.cards.source import Served
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.embedding.service import CLOSING_SECONDS
from engramlog.projections.embedding.vectors.card_vectors import CardVectors
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.cards import CardKey

MAX_AGE_S = 86_400.0
FORCE_SECONDS_MAX = 0.5
"""A forced refresh answers within this (seed §20.4.3)."""
UNRELATED_KINDS = frozenset(
    {
        "epoch_started",
        "node_key_rotated",
        "recall_served",
        "fact_feedback",
        "memories_merged",  # separate events end the merged facts and set attributes
        "recall_answered",
        "key_issued",
        "key_revoked",
        "capability_issued",
        "capability_revoked",
        "replica_promoted",
        "policy_set",
        "profile_set",
        "embedding_model_pinned",
        "episode_recorded",
        "episode_accessed",
        "delta_applied",  # separate events state and end its facts
        "delta_rejected",
        "summary_recorded",  # the same: its paragraphs are facts
        "consolidation_rule_set",
        "consolidation_ran",
    }
)
"""Events that change no card. An unknown kind makes every cached card be checked."""
_log = logging.getLogger(__name__)

Write = Callable[[View, Rows, CardKey, CardInputs], Card | None]


class Cards:
    """Live cards. ``start`` and ``close`` control the queue; without a start every card is written
    on demand.

    Args:
        pin: the memory image as published, for refreshes.
        now_us: the clock of refreshes.
        slot_of: slots of fact ids, to find the cards an event touches.
        max_age_s: an older card is stale.
        vectors: the store of card vectors, if any.
        write: the generator; tests pass a slow one.
    """

    def __init__(
        self,
        rows: Rows,
        pin: Callable[[], View],
        now_us: Callable[[], int],
        slot_of: Callable[[str], int | None],
        *,
        max_age_s: float = MAX_AGE_S,
        queue_max: int = QUEUE_MAX,
        force_seconds: float = FORCE_SECONDS_MAX,
        vectors: Callable[[], CardVectors | None] = lambda: None,
        write: Write = card_of,
    ) -> None:
        self.queue = CardQueue(queue_max)
        self.embedding = CardQueue(queue_max)
        self.cache = CardCache()
        self._rows = rows
        self._pin = pin
        self._now_us = now_us
        self._slot_of = slot_of
        self._max_age_us = int(max_age_s * 1_000_000)
        self._force_seconds = force_seconds
        self._write = write
        self._vectors = vectors

    def start(self) -> None:
        self.queue.start()
        self.embedding.start()

    def close(self) -> None:
        """Idempotent. An embedding provider that hangs is not waited for: its work ends with the
        provider."""
        self.queue.close()
        self.embedding.close(CLOSING_SECONDS)

    def serve(self, asked: AskedCard, *, force: bool = False) -> Served:
        """See ``CardSource``. A missing or stale card is queued."""
        asked, inputs = _looked_at(asked)
        if not len(inputs.members):
            return Served(None, asked.moment)
        if force:
            return self._serve_forced(asked, inputs)
        served = self._serve_cached(asked, inputs)
        if served.card is None or served.stale:
            self._wish(asked.key, asked.authorization)
        return served

    def exact(self, asked: AskedCard) -> Served:
        asked, inputs = _looked_at(asked)
        if not len(inputs.members):
            return Served(None, asked.moment)
        served = self._serve_cached(asked, inputs)
        if served.card is not None and not served.stale:
            return served
        return Served(self._write_and_keep(asked, inputs), asked.moment)

    def read(self, asked: AskedCard, *, refresh: bool = False) -> Served:
        """For a reader of the card itself: the cached card if fresh (unless ``refresh``), else a
        new one within 500 ms, else the stale one."""
        asked, inputs = _looked_at(asked)
        if not len(inputs.members):
            return Served(None, asked.moment)
        served = self._serve_cached(asked, inputs)
        if served.card is not None and not served.stale and not refresh:
            return served
        return self._serve_forced(asked, inputs)

    def _serve_forced(self, asked: AskedCard, inputs: CardInputs) -> Served:
        at_hand = self._serve_cached(asked, inputs)
        try:
            card = self.queue.run(lambda: self._write_and_keep(asked, inputs), self._force_seconds)
        except TimeoutError:
            return Served(at_hand.card, at_hand.moment, True, True, at_hand.divergent)
        return Served(card, asked.moment)

    def _serve_cached(self, asked: AskedCard, inputs: CardInputs) -> Served:
        """The cached card, if it may be shown."""
        entry, moment = self.cache.get(asked.key), asked.moment
        if entry is None:
            return Served(None, moment)
        if entry.fingerprint == inputs.fingerprint():
            old = moment.instant_us - entry.moment.instant_us > self._max_age_us
            return Served(entry.card, entry.moment, stale=old)
        if entry.moment.position > moment.position:
            return Served(None, moment)  # written meanwhile; it may show facts beyond this view
        divergent = entry.divergent(asked.view, inputs)
        if divergent is None:
            return Served(entry.card, entry.moment, stale=True)
        # It stays cached until it is replaced, so that every reader sees what contradicts it.
        return Served(None, moment, stale=True, divergent=divergent)

    def _write_and_keep(self, asked: AskedCard, inputs: CardInputs) -> Card | None:
        key = asked.key
        card = self._write(asked.view, self._rows, key, inputs)
        if card is not None:
            entry = CachedCard(
                card=card,
                fingerprint=inputs.fingerprint(),
                members=inputs.members,
                contested=inputs.slots[inputs.disputed],
                authorization=asked.authorization,
                moment=asked.moment,
            )
            for gone in self.cache.put(entry):
                self._forget(gone)
            if self._vectors() is not None:
                self.embedding.wish(key, lambda: self._embed(key))
        return card

    def committed(self, events: Sequence[Recorded]) -> None:
        """Queue a refresh of every cached card that these events may touch."""
        if FactErased in {type(event.payload) for event in events}:
            held = self.cache.keys()
            for key in held:  # cards whose text may hold an erased fact
                self.cache.drop(key)
                self._forget(key)
        events = [event for event in events if event.header.kind not in UNRELATED_KINDS]
        if not events or not len(self.cache):
            return
        entities: set[str] = set()
        for event in events:
            named = self._entities_of(event)
            if named is None:
                keys = self.cache.keys()
                break
            entities |= named
        else:
            keys = [key for entity in entities for key in self.cache.of_entity(entity)]
        for key in keys:
            entry = self.cache.get(key)
            if entry is not None:
                self._wish(key, entry.authorization)

    def _entities_of(self, event: Recorded) -> set[str] | None:
        """The entities whose cards an event touches; None if it may be any."""
        match event.payload:
            case FactAsserted(entity=entity):
                return {entity}
            case FactRetracted(fact_ids=facts) | FactDenied(fact_ids=facts):
                return self._entities(facts)
            case ConflictResolved(winner_id=winner, loser_ids=losers):
                return self._entities([winner, *losers])
            case FactAttributesSet(fact_id=fact):
                return self._entities([fact])
            case _:
                return None

    def _entities(self, facts: Iterable[str]) -> set[str]:
        view = self._pin()
        slots = (self._slot_of(fact) for fact in facts)
        return {view.entities.text(int(view.entity[n])) for n in slots if n is not None}

    def _wish(self, key: CardKey, authorization: Authorization) -> None:
        self.queue.wish(key, lambda: self._refresh(key, authorization))

    def _refresh(self, key: CardKey, authorization: Authorization) -> None:
        """Write a card again unless the cached one has the same text and is recent."""
        view = self._pin()
        moment = Moment(view.position, self._now_us())
        asked, inputs = _looked_at(AskedCard(view, key, authorization, moment))
        if not len(inputs.members):
            self.cache.drop(asked.key)
            self._forget(asked.key)
            return
        served = self._serve_cached(asked, inputs)
        if served.card is None or served.stale:
            self._write_and_keep(asked, inputs)

    def _embed(self, key: CardKey) -> None:
        """Embed the cached card. If the provider does not answer, it has no vector until its next
        refresh."""
        vectors, entry = self._vectors(), self.cache.get(key)
        if vectors is None or entry is None:
            return
        try:
            vectors.embed(key, entry.card.summary)
        except EmbeddingError as fault:
            vectors.forget(key)
            _log.debug("a card has no vector: %s", fault)
        if key not in self.cache:
            vectors.forget(key)

    def _forget(self, key: CardKey) -> None:
        vectors = self._vectors()
        if vectors is not None:
            vectors.forget(key)


def _looked_at(asked: AskedCard) -> tuple[AskedCard, CardInputs]:
    """The question for the card of readers with this ceiling, and the facts of that card."""
    asked = replace(asked, key=asked.key.of(asked.authorization.ceiling))
    return asked, card_inputs(asked)
