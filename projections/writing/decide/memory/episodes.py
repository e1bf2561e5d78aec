"""Recording episodes: new ones, and repetitions.

Within a scope or garden, an id of a recorder belongs to one episode: the same content again is a
repetition, other content is refused. Another recorder, scope or garden may use the same id: no
caller takes an id from others, and a refusal reveals nothing unreadable. Episodes of peers take no
id here.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import EpisodeRecorded
from engramlog.projections.episodes.shown import hides
from engramlog.projections.tables.database import query
from engramlog.projections.writing import memory_commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_writing

_SAME_IDS = """
SELECT e.id, e.key, user, session, agent, content, at_us, source_node, metadata, run_id, step
FROM json_each(?2) n CROSS JOIN episodes e ON e.partition=?1 AND e.id=n.value
WHERE e.peer IS NULL AND e.actor=?3 ORDER BY position DESC
"""
_AT = 4
"""The index of ``at_us`` in the result of ``_body``."""
_encode = msgspec.json.Encoder().encode


def record_episodes(command: ask.RecordEpisodes, context: Context) -> Decision | Refused:
    """``detail.episodes``: for each, its id, key, and whether it is new."""
    if not command.episodes:
        return Decision([], created=False, detail={"episodes": []})
    scope, garden_id = command.episodes[0].scope, command.episodes[0].garden_id
    check_writing(context, command.rights, garden_id, scope)
    partition = fact_partition(scope, garden_id)
    known = _known(command.episodes, partition, context)
    drafts: list[Draft] = []
    made: list[dict[str, Any]] = []
    for index, episode in enumerate(command.episodes):
        if episode.id is not None and episode.id in known:
            key, body = known[episode.id]
            undated = index in command.undated
            if not _is_repeated(body, _body(episode), undated=undated):
                return Refused(
                    "episode_conflict",
                    f"episode {episode.id!r} is recorded already, with another body",
                    f"episodes.{index}.id",
                )
            made.append({"id": episode.id, "key": key, "created": False})
            continue
        event_id = context.identifiers.next(context.now_us)
        draft = Draft(episode, partition, event_id, context.actor)
        key = id_text(event_id)
        drafts.append(draft)
        if episode.id is not None:
            known[episode.id] = (key, _body(episode))
        made.append({"id": episode.id or key, "key": key, "created": True})
    return Decision(drafts, created=bool(drafts), detail={"episodes": made})


def _is_repeated(known: tuple[Any, ...], body: tuple[Any, ...], *, undated: bool) -> bool:
    """Whether an episode repeats a known one; ``undated``: ignores the instant."""
    if undated:
        known, body = (each[:_AT] + each[_AT + 1 :] for each in (known, body))
    return known == body


def _known(
    episodes: Sequence[EpisodeRecorded], partition: str, context: Context
) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Key and body of the recorder's episodes with these ids; of several, the oldest. Skips
    episodes hidden by tombstones."""
    ids = [episode.id for episode in episodes if episode.id is not None]
    if not ids:
        return {}
    rows = query(context.db, _SAME_IDS, (partition, json.dumps(ids), context.actor))
    hiding, scope = context.image.tombstones.hiding, episodes[0].scope
    return {
        row[0]: (row[1], tuple(row[2:]))
        for row in rows
        if not hiding or not hides(hiding, row[2], row[4], row[3], scope, json.loads(row[8]))
    }


def _body(episode: EpisodeRecorded) -> tuple[Any, ...]:
    """The parts that must be equal in a repetition."""
    return (
        episode.user,
        episode.session,
        episode.agent,
        episode.content,
        episode.at_us,
        episode.source_node,
        _encode(episode.metadata).decode() if episode.metadata else "{}",
        episode.run_id,
        episode.step,
    )
