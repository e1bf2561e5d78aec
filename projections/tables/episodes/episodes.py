"""``episodes`` and ``episode_accesses``: what happened, and when it was read.

Rows never change: an episode is visible from its position on, an access counts from its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from engramlog.eventlog.event import Recorded, fact_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import EpisodeAccessed, EpisodeRecorded
from engramlog.projections.memories.place import scope_key
from engramlog.projections.tables.erasing import EVENTS, POSITIONS
from engramlog.projections.tables.projector import Projector

_RECORD = """
INSERT INTO episodes (position, key, id, partition, scope, garden_id, user, session, agent,
    scope_key, at_us, content, source_node, metadata, run_id, step, actor, peer, hash, hlc,
    recorded_at, origin, stream, stream_seq)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
"""
_ACCESS = "INSERT OR IGNORE INTO episode_accesses (key, position, at_us) VALUES (?,?,?)"
_encode = msgspec.json.Encoder().encode


class EpisodesProjector(Projector):
    """Rows of ``episodes`` and ``episode_accesses``."""

    name = "episodes"
    version = 1
    schema = """
    CREATE TABLE episodes (
        position INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        id TEXT NOT NULL,
        partition TEXT NOT NULL,
        scope TEXT NOT NULL,
        garden_id TEXT,
        user TEXT NOT NULL,
        session TEXT NOT NULL,
        agent TEXT NOT NULL,
        scope_key TEXT NOT NULL,
        at_us INTEGER NOT NULL,
        content TEXT NOT NULL,
        source_node TEXT NOT NULL,
        metadata TEXT NOT NULL,
        run_id TEXT,
        step INTEGER,
        actor TEXT NOT NULL,
        peer TEXT,
        hash TEXT NOT NULL,
        hlc INTEGER NOT NULL,
        recorded_at INTEGER NOT NULL,
        origin TEXT NOT NULL,
        stream TEXT NOT NULL,
        stream_seq INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX episodes_by_id ON episodes (partition, id);
    CREATE INDEX episodes_by_user ON episodes (user, at_us, position);
    CREATE INDEX episodes_by_partition ON episodes (partition, position);
    CREATE INDEX episodes_by_scope_key ON episodes (scope_key);
    CREATE TABLE episode_accesses (
        key TEXT NOT NULL,
        position INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        PRIMARY KEY (key, position)
    ) STRICT, WITHOUT ROWID;
    """
    kinds = frozenset({"episode_recorded", "episode_accessed"})
    erasing = (
        f"DELETE FROM episodes WHERE position IN {POSITIONS}",
        f"DELETE FROM episode_accesses WHERE key IN {EVENTS}",
    )

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows: list[tuple[apsw.SQLiteValue, ...]] = []
        looks: list[tuple[apsw.SQLiteValue, ...]] = []
        for event in events:
            payload = event.payload
            if isinstance(payload, EpisodeRecorded):
                rows.append(_row(event, payload))
            else:
                assert isinstance(payload, EpisodeAccessed)
                looks.extend((key, event.position, payload.at_us) for key in payload.episodes)
        if rows:
            db.executemany(_RECORD, rows)
        if looks:
            db.executemany(_ACCESS, looks)


def _row(event: Recorded, episode: EpisodeRecorded) -> tuple[apsw.SQLiteValue, ...]:
    header = event.header
    key = id_text(header.event_id)
    return (
        event.position,
        key,
        episode.id or key,
        fact_partition(episode.scope, episode.garden_id),
        episode.scope,
        episode.garden_id,
        episode.user,
        episode.session,
        episode.agent,
        scope_key(episode.user, episode.session, episode.agent),
        episode.at_us,
        episode.content,
        episode.source_node,
        _encode(episode.metadata).decode() if episode.metadata else "{}",
        episode.run_id,
        episode.step,
        header.actor,
        event.peer,
        event.hash.hex(),
        header.hlc,
        header.recorded_at,
        header.origin,
        header.stream,
        header.stream_seq,
    )
