"""Names, keys and prefixes: no key is the prefix of another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.episodes.stating import entity_of
from engramlog.projections.memories.place import (
    MemoryPlace,
    MemoryScopeError,
    name_part,
    scope_key,
)

NAMES = ("Alice", "alice", "Alice2", "Al_ce", "%", "Bob", "Bob/session/S9", "Bob%2Fsession", "é")


def test_the_key_is_encoded_and_closed() -> None:
    assert scope_key("Bob/session/S9", "S 1", "rag%") == (
        "/user/Bob%2Fsession%2FS9/session/S%201/agent/rag%25/"
    )


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_keys_of_different_users_differ(one: str, other: str) -> None:
    if one != other and not any(0xD800 <= ord(c) <= 0xDFFF for c in one + other):
        assert scope_key(one, "s", "a") != scope_key(other, "s", "a")


@pytest.mark.parametrize("text", ["", "a\x00", "a\n", "x" * 257, "é" * 129])
def test_an_unusable_name_is_refused(text: str) -> None:
    with pytest.raises(MemoryScopeError) as caught:
        name_part("session", text)
    assert caught.value.field == "session"


def test_a_name_of_countless_marks_is_refused_in_linear_time() -> None:
    with pytest.raises(MemoryScopeError):  # by insertion, sorting these would be minutes
        name_part("user", "\u0301\u0316" * 250_000)


def test_a_name_is_as_long_as_its_stored_form() -> None:
    assert name_part("user", "\u1fbe\u0308\u0301" * 128) == "\u0390" * 128  # 256 bytes
    assert name_part("user", "\u03c9\u0313\u0300\u0345" * 85) == "\u1fa2" * 85
    with pytest.raises(MemoryScopeError):
        name_part("user", "\u1fbe\u0308\u0301" * 129)


def test_users_have_entities_of_their_own() -> None:
    entities = {entity_of("self", MemoryPlace(name, "rag", "local")) for name in NAMES}
    assert len(entities) == len(NAMES)
    assert entity_of("star map", MemoryPlace("mara", "rag", "local")) == "memory://mara/star-map"
    assert entity_of("user:ann", MemoryPlace("mara", "rag", "local")) == "user:ann"
    plain, digested = (
        MemoryPlace("Mara", "rag", "local"),
        entity_of(None, MemoryPlace("Mara", "rag", "local")),
    )
    assert entity_of("self", plain) == digested
    assert entity_of("x", MemoryPlace(digested.split("/")[2], "rag", "local")) != entity_of(
        "x", plain
    )
