"""The log in memory keeps the contract."""

from __future__ import annotations

import pytest

from eventlog.clock import FixedClock
from eventlog.log import EventLog
from eventlog.memory_log import MemoryLog
from tests.eventlog.contract import LogContract
from tests.eventlog.samples import ORIGIN


class TestMemoryLog(LogContract):
    @pytest.fixture
    def log(self, clock: FixedClock) -> EventLog:
        return MemoryLog(ORIGIN, 1, clock)
