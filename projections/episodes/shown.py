"""Which episodes and deltas a caller sees, beyond the rights to their places.

An episode or delta is hidden like its facts: if a tombstone hides an entity of it, or if the caller
may not read them. For classifications both count as internal. Texts are not searched for names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.tombstone_mask import Hiding
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.stating import entity_of
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import kept_from
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.normalization import normalize_uri

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_list = msgspec.json.Decoder(list[str]).decode


def entities_of(
    user: str, agent: str, session: str, scope: str, metadata: Mapping[str, Any]
) -> set[str]:
    """The entities of an episode, in stored form: the speakers, and the ``subject`` and ``object``
    in its metadata."""
    subject, object_ = metadata.get("subject"), metadata.get("object")
    named = {_stored_form(text) for text in (user, agent, session, object_)}
    try:
        place = MemoryPlace(user, agent, scope, None)
        named.add(entity_of(subject if isinstance(subject, str) else None, place))
    except ValueError:  # a subject that gives no valid entity
        pass
    return named - {""}


def _stored_form(text: object) -> str:
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
    """One caller's view of episodes and deltas."""

    def __init__(self, view: View, rights: Authorization) -> None:
        self._view = view
        self._rights = rights

    def episode(self, episode: Episode) -> bool:
        """Whether the caller sees an episode in a readable place."""
        where = (episode.user, episode.agent, episode.session, episode.scope)
        return not hides(self._view.hiding, *where, episode.metadata)

    def _hidden_names(self, names: Sequence[str]) -> list[str]:
        return kept_from(self._view, self._rights, names)

    def delta(self, row: Mapping[str, Any]) -> bool:
        """Whether the caller sees an applied delta: they may read its fact or, if it only ended
        facts, one of these."""
        fact: str | None = row["fact_id"]
        if fact is not None:
            return not self._hidden_names([fact])
        ended = _list(row["retracted"])
        return not ended or len(self._hidden_names(ended)) < len(ended)

    def of_delta(self, row: dict[str, Any]) -> dict[str, Any]:
        """A visible delta, without ended facts that are hidden from the caller."""
        ended = _list(row["retracted"])
        gone = self._hidden_names(ended)
        if not gone:
            return row
        kept = [name for name in ended if name not in gone]
        return {**row, "retracted": msgspec.json.encode(kept).decode()}

    def rejection(self, named: Sequence[str], row: Mapping[str, Any]) -> bool:
        """Whether the caller sees a rejected delta: they may read all facts it was to replace
        (``named``), and all facts in the reason."""
        return not self._hidden_names([*named, *_ID.findall(row["message"])])
