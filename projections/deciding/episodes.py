"""Recording episodes: new ones, and those that are there already.

An id is one episode's within a scope or garden; the same again is a repetition, another body
under it is refused. In other scopes and gardens it is another episode's, so that a refusal
tells nothing of what the asker cannot read.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from eventlog.event import Draft, fact_partition
from eventlog.identifiers import id_text
from eventlog.kinds import EpisodeAccessed, EpisodeRecorded
from projections import intents as ask
from projections.database import query
from projections.deciding.context import Context, Decision
from projections.deciding.gardens import write_refusal
from projections.episodic.shown import hides
from projections.intents import NewEpisode, Refused

_SAME_IDS = """
SELECT e.id, e.key, user, session, agent, content, at_us, source_node, metadata, run_id, step
FROM json_each(?2) n CROSS JOIN episodes e ON e.partition=?1 AND e.id=n.value
ORDER BY position DESC
"""
_encode = msgspec.json.Encoder().encode


def record_episodes(intent: ask.RecordEpisodes, context: Context) -> Decision | Refused:
    """``detail.episodes``: of each, its id, key, and whether it is new."""
    if intent.garden_id is not None:
        refusal = write_refusal(context.db, intent.garden_id, intent.scope, intent.member)
        if refusal is not None:
            return refusal
    partition = fact_partition(intent.scope, intent.garden_id)
    known = _known(intent, partition, context)
    drafts: list[Draft] = []
    made: list[dict[str, Any]] = []
    for index, episode in enumerate(intent.episodes):
        if episode.id is not None and episode.id in known:
            key, body = known[episode.id]
            if body != _body(episode):
                return Refused(
                    "episode_conflict",
                    f"episode {episode.id!r} is recorded already, with another body",
                    f"episodes.{index}.id",
                )
            made.append({"id": episode.id, "key": key, "created": False})
            continue
        event_id = context.identifiers.next(context.now_us)
        actor = intent.recorded_by or context.actor
        draft = Draft(_recorded(episode, intent), partition, event_id, actor)
        key = id_text(event_id)
        drafts.append(draft)
        if episode.id is not None:
            known[episode.id] = (key, _body(episode))
        made.append({"id": episode.id or key, "key": key, "created": True})
    return Decision(drafts, created=bool(drafts), detail={"episodes": made})


def _known(
    intent: ask.RecordEpisodes, partition: str, context: Context
) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Key and body of the episodes that have one of these ids already; the oldest counts.
    Those that tombstones hide are not there."""
    ids = [episode.id for episode in intent.episodes if episode.id is not None]
    if not ids:
        return {}
    context.flush()
    rows = query(context.db, _SAME_IDS, (partition, json.dumps(ids)))
    hiding = context.mirror.hiding
    return {
        row[0]: (row[1], tuple(row[2:]))
        for row in rows
        if not hiding or not hides(hiding, row[2], row[4], row[3], intent.scope, json.loads(row[8]))
    }


def _body(episode: NewEpisode) -> tuple[Any, ...]:
    """What must be equal for an episode to be a repetition."""
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


def _recorded(episode: NewEpisode, intent: ask.RecordEpisodes) -> EpisodeRecorded:
    return EpisodeRecorded(
        user=episode.user,
        session=episode.session,
        agent=episode.agent,
        content=episode.content,
        at_us=episode.at_us,
        scope=intent.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        garden_id=intent.garden_id,
        id=episode.id,
        source_node=episode.source_node,
        metadata=episode.metadata,
        run_id=episode.run_id,
        step=episode.step,
    )


def note_episode_access(intent: ask.NoteEpisodeAccess, context: Context) -> Decision:
    """Episodes were looked at now."""
    payload = EpisodeAccessed(episodes=list(dict.fromkeys(intent.keys)), at_us=context.now_us)
    return Decision([context.draft(payload)])
