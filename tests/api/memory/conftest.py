"""Keys that memories belong to."""

import pytest

from tests.worlds.live import LiveNode


@pytest.fixture
def owner(live: LiveNode) -> str:
    return live.mint("read", "write", entity="user:owner", sources=["user:owner"])


@pytest.fixture
def other(live: LiveNode) -> str:
    return live.mint("read", "write", entity="user:other", sources=["user:owner", "user:other"])
