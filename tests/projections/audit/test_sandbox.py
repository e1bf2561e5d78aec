"""Audit statements give the right answers and reach nothing else."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import KeyIssued, Value
from engramlog.projections.archive.archive import Archive
from engramlog.projections.archive.duck import cursor, database
from engramlog.projections.audit import desk as desk_module
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.audit.sandbox import Rights, StatementRefused, extract_events
from engramlog.projections.audit.statement_task import StatementLimits, Table
from engramlog.projections.authorization import Authorization
from engramlog.projections.authorization import everything as all_rights
from engramlog.projections.moment import Moment
from engramlog.projections.tables.database import query
from engramlog.projections.writing.commands import Done, ResolveConflict, RetractFact
from tests.worlds.histories import asserted

LIMITS = StatementLimits(seconds=5.0, rows=100, memory_mib=256)
AUDITOR = Authorization("agent:auditor", frozenset({"read", "audit.read"}), frozenset({"local"}))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node.open(tmp_path_factory.mktemp("sandbox") / "data")
    try:
        for n, scope in enumerate(("local", "company", "local", "public")):
            value = Value(type="string", v=f"value {n}")
            node.write(asserted("user:ann", f"rel:r{n}", value, scope=scope))
        done = node.write(asserted("user:ben", "rel:x", Value(type="string", v="gone")))[0]
        assert isinstance(done, Done)
        assert done.fact_id is not None
        node.write(RetractFact(fact_id=done.fact_id, reason="wrong"))
        node.write(
            KeyIssued(
                key_id=str(uuid4()),
                entity_uri="agent:a",
                permissions=["read"],
                key_sha256="ab" * 32,
                scopes=["local"],
            )
        )
        yield node
    finally:
        node.close()


@pytest.fixture(scope="module")
def desk(node: Node) -> Iterator[AuditDesk]:
    desk = AuditDesk(Archive(node.directory, node.log))
    yield desk
    desk.close()


def ask(
    desk: AuditDesk,
    node: Node,
    sql: str,
    rights: Authorization | None = None,
    position: int | None = None,
    limits: StatementLimits = LIMITS,
    *,
    chains: bool = False,
) -> Table:
    view = node.reader.pin()
    moment = Moment(view.position if position is None else position, node.clock.now_us())
    return desk.ask(view, rights or all_rights(), moment, sql, limits, chains=chains)


def test_no_progress_is_written_between_the_answers(node: Node, desk: AuditDesk) -> None:
    """DuckDB writes it to standard output, where the statement's process answers."""
    shown = "SELECT current_setting('enable_progress_bar')"
    assert ask(desk, node, shown).rows == [[False]]
    with cursor() as shared, database() as own:
        assert [db.execute(shown).fetchone() for db in (shared, own)] == [(False,), (False,)]


def test_numbers_in_streams_are_for_those_who_see_chains(node: Node, desk: AuditDesk) -> None:
    sql = "SELECT DISTINCT stream_seq IS NULL FROM events"
    for sees in (False, True):
        assert ask(desk, node, sql, chains=sees).rows == [[not sees]]


def test_facts_have_interval_and_confidence_of_the_moment(node: Node, desk: AuditDesk) -> None:
    statement = "SELECT value, to_position IS NULL, confidence FROM facts WHERE entity='user:ben'"
    assert ask(desk, node, statement).rows == [["gone", False, 0.0]]
    asserted_at = ask(desk, node, "SELECT from_position FROM facts WHERE entity='user:ben'").rows[
        0
    ][0]
    assert ask(desk, node, statement, position=asserted_at).rows == [["gone", True, 1.0]]
    assert ask(desk, node, statement, position=asserted_at - 1).rows == []
    assert ask(desk, node, "SELECT reason FROM retractions").rows == [["wrong"]]


def test_a_caller_reads_the_streams_of_their_scopes_alone(node: Node, desk: AuditDesk) -> None:
    assert ask(desk, node, "SELECT DISTINCT scope FROM facts", AUDITOR).rows == [["local"]]
    kinds = ask(desk, node, "SELECT DISTINCT stream LIKE '%/local' FROM events", AUDITOR).rows
    assert kinds == [[True]]
    # The file behind the views holds no more than the views show.
    raw = ask(desk, node, "SELECT current_setting('allowed_paths')[1]", AUDITOR).rows[0][0]
    behind = f"SELECT DISTINCT scope FROM '{raw}' WHERE kind = 'fact_asserted'"
    assert ask(desk, node, behind, AUDITOR).rows == [["local"]]


def test_events_of_many_segments_are_in_the_order_of_the_log(tmp_path: Path) -> None:
    """Also an event that names a hidden fact beside others, and so is shown in part."""
    node = Node.open(tmp_path / "data")
    rivals = [
        node.write(asserted("user:ann", "memory:home", Value("string", town), f"agent:{town}"))[0]
        for town in ("graz", "linz", "wels")
    ]
    with node.reader.pool.connection() as db:
        conflict = query(db, "SELECT conflict_id FROM conflicts")[0][0]
    winner = rivals[0]
    assert isinstance(winner, Done)
    node.write(
        ResolveConflict(conflict_id=conflict, winning_fact_id=winner.fact_id, source="agent:judge")
    )
    settled = node.log.head().position
    for n in range(60):
        node.write(asserted("user:ben", f"rel:r{n}", Value("string", f"value {n}")))
    last = node.log.head().position
    archive = Archive(node.directory, node.log, segment_events=8)
    target = tmp_path / "events.parquet"
    with archive.reading(last) as sources:
        assert len(sources) > 5
        hidden = np.array([3, 31], dtype=np.int64)
        extract_events(target, sources, last, Rights(scopes=("local",)), hidden, lambda *_: True)
    with cursor() as db:
        told = db.execute(f"SELECT position, fact_ids FROM '{target}'").fetchall()
    node.close()
    positions = [position for position, _ in told]
    assert positions == sorted({*range(2, last + 1)} - {3, 31})
    ended = [str(each.fact_id) for each in rivals[1:] if isinstance(each, Done)]
    assert {ended[0], ended[1]} & {*dict(told)[settled]} == {ended[1]}


def test_a_value_that_cannot_be_shown_is_no_matter_of_memory(node: Node, desk: AuditDesk) -> None:
    with pytest.raises(StatementRefused, match="cannot be shown") as refused:
        ask(desk, node, "SELECT INTERVAL 999999999 MONTHS")
    assert refused.value.code == "sql_invalid"


def test_a_stop_ends_the_running_statement_and_later_ones(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    desk = AuditDesk(Archive(node.directory, node.log))
    endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range % 7 = b.range"
    limits = StatementLimits(seconds=600.0, rows=1, memory_mib=256)
    began = threading.Event()
    run: Callable[..., Table] = desk_module.run_sql
    refusals: list[StatementRefused] = []

    def begin(*given: Any) -> Table:
        *rest, started = given
        return run(*rest, lambda process: (started(process), began.set()))

    def work() -> None:
        with pytest.raises(StatementRefused) as refused:
            ask(desk, node, endless, limits=limits)
        refusals.append(refused.value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desk_module, "run_sql", begin)
        thread = threading.Thread(target=work)
        thread.start()
        assert began.wait(60)
        desk.stop()
        thread.join(60)
    assert len(refusals) == 1
    with pytest.raises(StatementRefused):
        ask(desk, node, endless, limits=limits)
    desk.close()
    node.close()


def test_no_column_identifies_a_key(node: Node, desk: AuditDesk) -> None:
    rows = ask(desk, node, "SELECT * FROM events WHERE kind='key_issued'").rows
    assert len(rows) == 1
    assert "ab" * 16 not in str(rows)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY facts TO '/tmp/engramlog-escape.csv'",
        "ATTACH '/tmp/engramlog-escape.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access=true",
        "RESET lock_configuration",
        "PRAGMA enable_external_access",
        "CREATE TABLE x AS SELECT 1",
        "CREATE MACRO m() AS 1",
        "INSERT INTO standing VALUES (1, 1, 1)",
        "DELETE FROM standing",
        "DROP VIEW facts",
        "CALL pragma_version()",
        "EXPORT DATABASE '/tmp/engramlog-escape'",
        "CHECKPOINT",
        "SELECT 1; SELECT 2",
        "EXPLAIN SELECT 1",
        "SHOW TABLES",
        "/* SELECT */ DESCRIBE facts",
        "-- SELECT\nSUMMARIZE facts",
        "",
        "-- nothing",
    ],
)
def test_only_one_select_is_run(node: Node, desk: AuditDesk, sql: str) -> None:
    with pytest.raises(StatementRefused) as refusal:
        ask(desk, node, sql)
    assert refusal.value.code in ("sql_refused", "sql_invalid")
    assert not list(Path("/tmp").glob("engramlog-escape*"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('https://example.invalid/x.parquet')",
        "SELECT * FROM read_json_auto('s3://bucket/x')",
        "SELECT getenv('HOME')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM sqlite_scan('/tmp/x.db', 't')",
        "EXPLAIN ANALYZE COPY facts TO '/tmp/engramlog-escape.csv'",
        "SELECT * FROM query('COPY facts TO ''/tmp/engramlog-escape.csv''')",
        "WITH x AS (SELECT * FROM read_text('/etc/hostname')) SELECT * FROM x",
    ],
)
def test_no_file_and_no_network(node: Node, desk: AuditDesk, sql: str) -> None:
    with pytest.raises(StatementRefused):
        ask(desk, node, sql)
    assert not list(Path("/tmp").glob("engramlog-escape*"))


def test_python_objects_of_the_process_are_out_of_reach(node: Node, desk: AuditDesk) -> None:
    for name in ("statement", "limits", "db", "VIEWS"):
        with pytest.raises(StatementRefused, match="does not exist"):
            ask(desk, node, f"SELECT * FROM {name}")


def test_time_rows_and_memory_are_limited(node: Node, desk: AuditDesk) -> None:
    hasty = StatementLimits(seconds=0.5, rows=10, memory_mib=128)
    with pytest.raises(StatementRefused) as slow:
        ask(desk, node, "SELECT count(*) FROM range(1000000000000)", limits=hasty)
    assert slow.value.code == "sql_timeout"
    with pytest.raises(StatementRefused) as large:
        ask(desk, node, "SELECT repeat('x', 2000000000)", limits=hasty)
    assert large.value.code in ("sql_too_large", "sql_timeout")
    table = ask(desk, node, "SELECT * FROM range(1000)", limits=hasty)
    assert (len(table.rows), table.truncated) == (10, True)
    wide = StatementLimits(seconds=5, rows=100, memory_mib=256, result_bytes=1000)
    with pytest.raises(StatementRefused) as wordy:
        ask(desk, node, "SELECT repeat('x', 2000)", limits=wide)
    assert wordy.value.code == "sql_too_large"


def test_every_type_has_a_plain_form(node: Node, desk: AuditDesk) -> None:
    table = ask(
        desk,
        node,
        "SELECT 1::HUGEINT, 1.5::DECIMAL(5,2), 'NaN'::DOUBLE, DATE '2020-01-02', "
        "TIMESTAMP '2020-01-02 03:04:05', [1, NULL], {'a': 'b'}, 'x'::BLOB, NULL, true",
    )
    assert table.rows == [
        [1, "1.50", None, "2020-01-02", "2020-01-02T03:04:05", [1, None], {"a": "b"}, "eA==",
         None, True]
    ]  # fmt: skip
