"""Hybrid clocks order events and survive bad peers, and identifiers follow time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.clock import HybridClock, format_hlc, pack_hlc, parse_hlc
from engramlog.eventlog.errors import ClockSkew
from engramlog.eventlog.identifiers import IdentifierSource, id_bytes, id_text, is_foreign
from tests.worlds.samples import START_US

ORIGIN = "stigmem:node:test"
NOW_HLC = START_US // 1000 * 1000


@given(st.integers(0, 10**15 - 1))
def test_the_text_of_a_reading_reads_back(hlc: int) -> None:
    assert parse_hlc(format_hlc(hlc)) == hlc


def test_unpadded_text_is_the_same_reading() -> None:
    assert parse_hlc("1700000000000.7") == parse_hlc("1700000000000.007")
    assert parse_hlc("5.0") == pack_hlc(5, 0)


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.0", "1.0.0", "1,0", "1.0000000"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="hybrid clock"):
        parse_hlc(text)


@given(st.lists(st.integers(0, 10**16), min_size=2, max_size=50))
def test_a_clock_never_goes_back_when_the_wall_clock_jumps(instants: list[int]) -> None:
    clock = HybridClock()
    readings = [clock.tick(now_us) for now_us in instants]
    assert readings == sorted(set(readings))


def test_a_full_counter_moves_on_to_the_next_millisecond() -> None:
    clock = HybridClock()
    readings = [clock.tick(START_US) for _ in range(1001)]
    assert format_hlc(readings[-1]) == "1700000000001.000"


def test_a_reading_after_a_remote_one_is_greater_than_both() -> None:
    clock = HybridClock()
    before = clock.tick(START_US)
    remote = NOW_HLC + 5_000
    assert clock.receive(remote, START_US) > max(before, remote)
    assert clock.receive(remote, START_US + 60_000_000) == NOW_HLC + 60_000_000  # the wall's


def test_a_remote_clock_too_far_ahead_is_refused_without_effect() -> None:
    clock = HybridClock()
    before = clock.tick(START_US)
    with pytest.raises(ClockSkew, match="300001"):
        clock.receive(NOW_HLC + 300_001_000, START_US)
    assert clock.last == before


def test_identifiers_increase_even_when_the_clock_stops_or_goes_back() -> None:
    source = IdentifierSource(ORIGIN)
    ids = [source.next(START_US - step * 500) for step in range(10_000)]
    assert ids == sorted(set(ids))


def test_identifiers_carry_their_time_and_version() -> None:
    raw = IdentifierSource(ORIGIN).next(START_US)
    assert int.from_bytes(raw[:6], "big") == START_US // 1000
    assert (raw[6] >> 4, raw[8] >> 6) == (8, 0b10)
    assert id_bytes(id_text(raw)) == raw


@given(st.integers(0, 2**47), st.binary(min_size=512, max_size=512))
def test_an_identifier_is_of_one_origin_alone(now_us: int, random: bytes) -> None:
    raw = IdentifierSource(ORIGIN, lambda _: random).next(now_us)
    assert not is_foreign(raw, ORIGIN)
    assert is_foreign(raw, ORIGIN + "0")
    for bit in range(128):
        altered = (int.from_bytes(raw) ^ 1 << bit).to_bytes(16)
        named = (altered[6] >> 4, altered[8] >> 6) == (8, 0b10)
        assert is_foreign(altered, ORIGIN) == named


def test_identifiers_of_before_name_no_origin() -> None:
    assert not is_foreign(id_bytes("018bcfe5-6800-7000-8000-000000000001"), ORIGIN)
