"""Questions about episodes and deltas find their rows by an index."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import apsw.ext
import pytest

from engramlog.projections.authorization import Authorization, everything
from engramlog.projections.episodes import reading, reading_deltas, reading_rules
from engramlog.projections.episodes.reading import Readers
from engramlog.projections.episodes.reading_deltas import DeltaFilter
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.episodes import deltas
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.decide.memory import delta_book, episodes

RIGHTS = Authorization("a", frozenset({"read"}), frozenset(SCOPES), frozenset({"g"}))
WHO = Readers("scope/local", "u", "a")
KEY = (MemoryPlace("u", "a", "local"), "agent:a", "self", "is")
TABLES = ("episodes", "deltas", "delta_sources", "memory_facts", "episode_accesses", "facts")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    store = ProjectionStore(tmp_path_factory.mktemp("plans") / "projections.db")
    yield store.db
    store.close()


ASKED: dict[str, Callable[[apsw.Connection], Any]] = {
    "a user's episodes": lambda db: reading.recent(db, RIGHTS, 9, user="u", limit=5),
    "the next page": lambda db: reading.recent(db, RIGHTS, 9, user="u", limit=5, before=(1, 1)),
    "episodes by name": lambda db: reading.find_episodes(db, RIGHTS, 9, ["x"]),
    "episodes by name, everywhere": lambda db: reading.find_episodes(db, everything(), 9, ["x"]),
    "what a rule reads": lambda db: reading.behind(db, WHO, after=1, until=9, limit=5),
    "what waits for a rule": lambda db: reading.pending(db, WHO, 1),
    "the last of a fire": lambda db: reading.nth_behind(db, WHO, 1, 5),
    "facts that stand for keys": lambda db: reading_deltas.live_facts_of_keys(db, [KEY]),
    "deltas made already": lambda db: reading_deltas.known_deltas(db, ["x"]),
    "a rule's watermark": lambda db: reading_rules.watermark(db, "r"),
    "a user's deltas": lambda db: reading_deltas.deltas_at(
        db, RIGHTS, 9, DeltaFilter(user="u"), limit=5
    ),
    "an episode's deltas": lambda db: reading_deltas.deltas_at(
        db, RIGHTS, 9, DeltaFilter(user="u", episode_id="x", episode_hash="h"), limit=5
    ),
    "a user's facts": lambda db: reading_deltas.memory_facts_at(db, 9, user="u"),
    "one fact's row": lambda db: reading_deltas.memory_facts_at(db, 9, user="u", agent="a"),
}
STATEMENTS = {
    "episodes of these ids": episodes._SAME_IDS,
    "deltas of these ids": delta_book._KNOWN,
    "facts of these names": delta_book._NAMED,
    "a rival of a fact": delta_book._RIVAL,
    "hashes of episodes": delta_book._HASHES,
    "a fact replaced": deltas._REPLACED,
}


@pytest.mark.parametrize("name", [*ASKED, *STATEMENTS])
def test_no_table_is_read_whole(db: apsw.Connection, name: str) -> None:
    for sql in [STATEMENTS[name]] if name in STATEMENTS else statements(db, ASKED[name]):
        plan = _steps(apsw.ext.query_info(db, sql, explain_query_plan=True).query_plan)
        aliases = (*TABLES, *"edmfsivo")
        scanned = [step for step in plan if step.split()[:2] in [["SCAN", t] for t in aliases]]
        assert not scanned, plan
        # Reading a whole scope or garden is as bad as reading the whole table.
        assert not [step for step in plan if step.endswith("(partition=?)")], plan


def statements(db: apsw.Connection, ask: Callable[[apsw.Connection], Any]) -> list[str]:
    """The statements that a question runs."""
    seen: list[str] = []

    def note(_: object, sql: str, __: object) -> bool:
        seen.append(sql)
        return True

    db.exec_trace = note
    try:
        ask(db)
    finally:
        db.exec_trace = None
    assert seen
    return seen


def _steps(plan: apsw.ext.QueryPlan | None) -> list[str]:
    """SQLite's steps as a flat list."""
    if plan is None:
        return []
    return [plan.detail, *(step for part in plan.sub or () for step in _steps(part))]


def test_a_peers_many_episodes_of_one_id_do_not_slow_a_rule(tmp_path: Path) -> None:
    store = ProjectionStore(tmp_path / "projections.db")
    many, page, steps_per_episode = 3_000, 20, 200
    sql = """INSERT INTO episodes VALUES (?,?,'x','scope/local','local',NULL,'u','s','a','k',1,'c',
        '','{}',NULL,NULL,'agent:p','peer','h',1,1,'o','st',1)"""
    store.db.executemany(sql, [(n, f"key {n}") for n in range(1, many + 1)])
    steps: list[None] = []
    store.db.set_progress_handler(lambda: steps.append(None) is not None, 100)
    who = Readers("scope/local", "u", "a", peers=True)
    found = reading.behind(store.db, who, after=many - page, until=many, limit=page)
    store.db.set_progress_handler(None)
    store.close()
    assert [each.namesake for each in found] == [False] * page
    assert len(steps) * 100 < page * steps_per_episode
