"""The erasure by which a promoted replica names payloads that it never had."""

from pathlib import Path

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.event import Draft
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactErased
from engramlog.replay.replication.unexplained import unexplained_erasure
from tests.eventlog.erasure_contract import adopt, verified
from tests.worlds.samples import ORIGIN, START_US, erase, fact, open_log


def test_it_names_what_is_missing_and_no_erasure_names(tmp_path: Path) -> None:
    with open_log(tmp_path / "primary.db") as primary, open_log(tmp_path / "copy.db") as copy:
        gone, _ = primary.append([fact("gone"), fact("kept")]).events
        assert unexplained_erasure(primary) is None
        erase(primary, gone)
        stored = primary.read_stored()
        copy.copy(stored[:2])
        found = unexplained_erasure(copy)
        assert found is not None
        assert found.events == found.fact_ids == [id_text(gone.event_id)]
        copy.copy(stored[2:])
        assert unexplained_erasure(copy) is None


def test_a_peers_erasure_that_names_no_event_hinders_it_not() -> None:
    clock = FixedClock(START_US)
    log, peer = MemoryLog(ORIGIN, 1, clock), MemoryLog("peer", 1, clock)
    (gone,) = log.append([fact("gone")]).events
    erase(log, gone)
    erasure = FactErased(erasure_id="e", events=["no identifier"])
    peer.append([Draft(erasure, "scope/company", bytes(16), "agent:admin")])
    adopt(log, [verified(stored) for stored in peer.read_stored()])
    assert unexplained_erasure(log) is None
