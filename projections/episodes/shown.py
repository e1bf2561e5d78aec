"""Which episodes and deltas a caller sees, beyond the rights to where they lie.

An episode, or a delta, is kept from a caller like the facts it speaks of: those about an
entity that a tombstone hides, and the facts that the caller may not read. Both count as
internal where classifications are asked. Texts are not searched for names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from engramlog.projections.episodes.stating import entity_of
from engramlog.projections.image.visible_facts import kept_from
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.normalization import normalize_uri

if TYPE_CHECKING:
    from engramlog.projections.authorization import Authorization
    from engramlog.projections.columns.tombstone_mask import Hiding
    from engramlog.projections.episodes.episode import Episode
    from engramlog.projections.image.view import View

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_list = msgspec.json.Decoder(list[str]).decode


def entities_of(
    user: str, agent: str, session: str, scope: str, metadata: Mapping[str, Any]
) -> set[str]:
    """The entities that an episode is about, in stored form: who spoke, and what its metadata
    name as ``subject`` and ``object``."""
    subject, object_ = metadata.get("subject"), metadata.get("object")
    named = {_stored(text) for text in (user, agent, session, object_)}
    try:
        place = MemoryPlace(user, agent, scope, None)
        named.add(entity_of(subject if isinstance(subject, str) else None, place))
    except ValueError:  # a subject that makes no entity
        pass
    return named - {""}


def _stored(text: object) -> str:
    if not isinstance(text, str) or ":" not in text:
        return ""
    try:
        return normalize_uri(text)
    except ValueError:
        return ""


def hides(
    hiding: Hiding, user: str, agent: str, session: str, scope: str, metadata: Mapping[str, Any]
) -> bool:
    """Whether tombstones hide an episode."""
    if not hiding:
        return False
    named = entities_of(user, agent, session, scope, metadata)
    return any(hiding.covers(entity, scope) for entity in named)


class Shown:
    """What one caller sees of episodes and deltas."""

    def __init__(self, view: View, rights: Authorization) -> None:
        self._view = view
        self._rights = rights

    def episode(self, episode: Episode) -> bool:
        """Whether the caller sees an episode of a place that is theirs to read."""
        where = (episode.user, episode.agent, episode.session, episode.scope)
        return not hides(self._view.hiding, *where, episode.metadata)

    def _kept(self, names: Iterable[str]) -> list[str]:
        return kept_from(self._view, self._rights, names)

    def delta(self, row: Mapping[str, Any]) -> bool:
        """Whether the caller sees an applied delta: its fact is theirs to read and so is, if it
        only ended facts, one of these."""
        fact: str | None = row["fact_id"]
        if fact is not None:
            return not self._kept([fact])
        ended = _list(row["retracted"])
        return not ended or len(self._kept(ended)) < len(ended)

    def of_delta(self, row: dict[str, Any]) -> dict[str, Any]:
        """A delta that is shown, without the facts it ended that are kept from the caller."""
        ended = _list(row["retracted"])
        gone = self._kept(ended)
        if not gone:
            return row
        kept = [name for name in ended if name not in gone]
        return {**row, "retracted": msgspec.json.encode(kept).decode()}

    def rejection(self, named: Sequence[str], row: Mapping[str, Any]) -> bool:
        """Whether the caller sees a rejected delta: none of the facts it was to replace
        (``named``), and none that the reason speaks of, is kept from them."""
        return not self._kept([*named, *_ID.findall(row["message"])])
