"""The statements of the write path find their rows by an index."""

from collections.abc import Iterator

import apsw
import apsw.ext
import pytest

from engramlog.projections.contradictions import conflicts
from engramlog.projections.tables.conflicts import statements
from engramlog.projections.tables.facts import fact_rows, facts
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.decide.facts import asserting, resolving, retracting


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    store = ProjectionStore(tmp_path_factory.mktemp("plans") / "projections.db")
    yield store.db
    store.close()


HOT = {
    "the newest fact of a source": asserting._SAME,
    "what a denial ends": retracting._TARGETS,
    "a fact to retract by content": retracting._MATCHING,
    "a fact to retract by id": retracting._BY_ID,
    "the facts of a losing value": resolving._VALUE_GROUP,
    "the claimants of a key": resolving._CLAIMANTS,
    "whether a key had facts before": statements.EARLIER,
    "the newest claim of keys": statements.TOPS,
    "the newest claim of a key": statements.TOP,
    "whether another value stands": statements.RIVAL,
    "adding a claim": statements.CLAIM,
    "the next newest of a value": statements.NEXT_NEWEST,
    "opening a conflict": statements.OPEN,
    "closing a conflict": statements.CLOSE,
    "closing a key's conflicts": statements.CLOSE_KEY,
    "the conflicts of a key": conflicts._OF_KEY,
    **{
        f"one page of conflicts ({status or 'all'})": conflicts._PAGE.format(wanted=wanted)
        for status, wanted in conflicts._WANTED.items()
    },
    "settled denials": conflicts._SETTLED_DENIALS,
    "the rows of one denial": conflicts._OF_DENIAL,
    "one row by position": fact_rows._FETCH_ONE,
    "rows by position": fact_rows._FETCH_MANY,
    "ending a fact": facts._END,
    "setting a fact aside": facts._SET_ASIDE,
}


@pytest.mark.parametrize("name", HOT)
def test_the_write_path_scans_no_table(db: apsw.Connection, name: str) -> None:
    plan = _steps(apsw.ext.query_info(db, HOT[name], explain_query_plan=True).query_plan)
    scanned = [
        step
        for step in plan
        if step.startswith("SCAN")
        and any(table in step for table in ("facts", "fact_rows", "claims"))
    ]
    assert not scanned, plan
    assert not {"SCAN conflicts", "SCAN denials"} & {*plan}, plan


def _steps(plan: apsw.ext.QueryPlan | None) -> list[str]:
    """SQLite's steps as a flat list."""
    if plan is None:
        return []
    return [plan.detail, *(step for part in plan.sub or () for step in _steps(part))]


def test_a_scan_would_be_seen(db: apsw.Connection) -> None:
    sql = "SELECT id FROM fact_rows WHERE value_v=?"
    plan = _steps(apsw.ext.query_info(db, sql, explain_query_plan=True).query_plan)
    assert any(step.startswith("SCAN fact_rows") for step in plan)
