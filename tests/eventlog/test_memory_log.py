"""The log in memory keeps the contract."""

import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.log import EventLog
from tests.eventlog.contract import LogContract
from tests.worlds.samples import ORIGIN


class TestMemoryLog(LogContract):
    @pytest.fixture
    def log(self, clock: FixedClock) -> EventLog:
        return MemoryLog(ORIGIN, 1, clock)
