"""Values worked out by hand from the protocol: identifiers, names, decay, targets, instants."""

import json
import tracemalloc
from hashlib import sha256

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.kinds import DecayPolicy, DecaySwept, FactAsserted, Value
from engramlog.projections.cid import cid_of, parse_fact_hash
from engramlog.projections.moment import format_instant, parse_instant
from engramlog.projections.normalization import normalize_ref, normalize_uri
from engramlog.projections.tables.conflicts.identities import conflict_id
from engramlog.projections.tables.database import query
from engramlog.projections.tables.facts.decay import (
    MAY_DECAY,
    decayed_confidence,
    is_exempt,
    policy_for,
    retracted_by,
    swept_rows,
)
from engramlog.projections.writing.decide.facts.retracting import zero_targets

DAY_S = 86_400.0
MEMORY = apsw.Connection(":memory:")
DAY_US = 86_400_000_000


def test_the_content_ids_are_the_protocols() -> None:
    """The two vectors of wire 1.6 and 1.4."""
    ceo = FactAsserted(
        entity="stigmem://t.example/user/alice-smith",
        relation="memory:role",
        value=Value("string", "CEO"),
        source="stigmem://t/agent/a",
        scope="local",
    )
    assert cid_of(ceo) == "sha256:76191e94e58909f694bb0eca903a71d4ddda19c5490da44b75e62b11e5e30ae4"
    public = FactAsserted(
        entity="stigmem://t/s/40c4c7-public",
        relation="memory:x",
        value=Value("string", "public"),
        source="stigmem://t/agent/a",
        scope="public",
    )
    assert (
        cid_of(public) == "sha256:62239ba03781d3bd3f9a82d2b7a538f5e076b92166c1bd22773149e2bbd49848"
    )


texts = st.text(max_size=20).filter(lambda text: text.isprintable() or max(text) < "\ud800")


@given(texts, texts, texts, texts, st.floats(0, 1))
def test_content_ids_hash_the_json_that_clients_write(
    entity: str, relation: str, v: str, source: str, confidence: float
) -> None:
    body = {
        "confidence": confidence,
        "entity": entity,
        "relation": relation,
        "scope": "team",
        "source": source,
        "value_type": "text",
        "value_v": v,
    }
    written = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    fact = FactAsserted(entity, relation, Value("text", v), source, "team", confidence)
    assert cid_of(fact) == "sha256:" + sha256(written.encode()).hexdigest()


def test_a_fact_hash_is_read_with_or_without_its_prefix() -> None:
    digits = "0123456789abcdef" * 4
    assert parse_fact_hash(digits) == parse_fact_hash("sha256:" + digits) == digits
    for wrong in ("", digits[:-1], digits + "0", digits.upper(), "sha1:" + digits, digits + "\n\n"):
        with pytest.raises(ValueError):
            parse_fact_hash(wrong)


@pytest.mark.parametrize(
    ("given_as", "stored"),
    [
        (" stigmem://Company.Example/User/Alice ", "stigmem://company.example/user/alice"),
        ("user:Alice Smith", "user:alice-smith"),
        ("STIGMEM://T/User/Alice \t Smith", "stigmem://t/user/alice-smith"),
        ("stigmem://t/user/a/b/c", "stigmem://t/user/a/b/c"),
        ("agent:one", "agent:one"),
        ("a\u00a0b", "a-b"),
        ("Ünïcode:Straße", "ünïcode:straße"),
    ],
)
def test_names_are_stored_in_one_form(given_as: str, stored: str) -> None:
    assert normalize_uri(given_as) == stored
    assert normalize_uri(stored) == stored


@pytest.mark.parametrize(
    "wrong", ["", "  ", "stigmem://", "stigmem://a//b", "stigmem:///u/x", "a\x00b", "x" * 2049]
)
def test_names_that_mean_nothing_are_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        normalize_uri(wrong)


def test_a_ref_is_a_uri() -> None:
    assert normalize_ref("stigmem://T/User/Bob") == "stigmem://t/user/bob"
    assert normalize_ref("urn:ISBN:1") == "urn:isbn:1"
    for wrong in ("bob", "b o b", ":x", "1a:b"):
        with pytest.raises(ValueError):
            normalize_ref(wrong)


@pytest.mark.parametrize(
    ("base", "age_s", "floor", "left"),
    [
        (1.0, 0.0, 0.0, 1.0),
        (1.0, DAY_S / 2, 0.0, 0.707107),  # 2 ** -0.5
        (1.0, DAY_S, 0.0, 0.5),
        (0.8, DAY_S, 0.0, 0.4),
        (1.0, 2 * DAY_S, 0.0, 0.25),
        (1.0, 3 * DAY_S, 0.0, 0.125),
        (1.0, 3 * DAY_S, 0.2, 0.2),
        (0.1, DAY_S, 0.2, 0.1),  # a floor never raises a lower base
        (1.0, 1_000 * DAY_S, 0.0, 0.0),
        (0.123456789, 0.0, 0.0, 0.123457),
        (1.0, -DAY_S, 0.0, 1.0),  # from the future: not older than now
    ],
)
def test_confidence_halves_with_every_half_life(
    base: float, age_s: float, floor: float, left: float
) -> None:
    age = np.array([int(age_s * 1e6)], dtype=np.int64)
    expected = min(base, left)
    assert decayed_confidence(np.array([base]), age, DAY_S, floor).tolist() == [expected]


def test_a_time_to_live_ends_facts_at_its_very_end() -> None:
    policy = DecayPolicy(id="p", ttl_s=1.0, min_confidence=0.5)
    ages = np.array([999_999, 1_000_000, 0, 0], dtype=np.int64)
    confidences = np.array([1.0, 1.0, 0.5, 0.499999])
    assert retracted_by(policy, confidences, ages).tolist() == [False, True, False, True]


def test_the_most_specific_policy_decides() -> None:
    def chosen(relation: str, scope: str, *policies: DecayPolicy) -> str | None:
        found = policy_for(policies, relation, scope)
        return None if found is None else found.id

    anything = DecayPolicy(id="any")
    prefix = DecayPolicy(id="prefix", relation="memory:*")
    longer = DecayPolicy(id="longer", relation="memory:ro*")
    exact = DecayPolicy(id="exact", relation="memory:role")
    here = DecayPolicy(id="here", scope="local")
    twin = DecayPolicy(id="a-twin")
    spared = DecayPolicy(id="spared", relation="memory:r*", exempt_relations=["memory:role"])
    assert chosen("memory:role", "local", anything, prefix, longer, exact) == "exact"
    assert chosen("memory:rob", "local", anything, prefix, longer, exact) == "longer"
    assert chosen("memory:x", "local", anything, prefix, longer, exact) == "prefix"
    assert chosen("tag:x", "local", anything, prefix, here) == "here"
    assert chosen("tag:x", "team", anything, prefix, here) == "any"
    assert chosen("memory:x", "local", here, prefix) == "prefix", "the relation comes first"
    assert chosen("tag:x", "local", anything, twin) == "a-twin"
    assert chosen("tag:x", "local", prefix) is None
    assert chosen("memory:role", "local", anything, spared) is None, "exempt"


@pytest.mark.parametrize(
    ("entity", "relation", "spared"),
    [
        ("user:a", "memory:role", False),
        ("user:a", "rel:knows", True),
        ("user:a", "stigmem:memory:card", True),
        ("stigmem:resolution:x", "memory:role", True),
        ("stigmem://t/user/a", "memory:role", False),
        ("user:a", "relative", False),
    ],
)
def test_decay_spares_relationships_and_the_nodes_own_records(
    entity: str, relation: str, spared: bool
) -> None:
    assert is_exempt(entity, relation) is spared


def test_a_sweep_ends_and_weakens_each_row_by_its_own_policy() -> None:
    sweep = DecaySwept(
        scope="*",
        at_us=2 * DAY_US,
        policies=[
            DecayPolicy(id="half", mode="confidence", half_life_s=DAY_S),
            DecayPolicy(id="gone", relation="tag:*", mode="retract", ttl_s=DAY_S),
        ],
    )
    rows = [
        (1, "memory:role", "local", 1.0, 1.0, DAY_US),
        (2, "memory:role", "local", 0.6, 0.6, 0),
        (3, "memory:role", "local", 1.0, 0.5, DAY_US),  # weakened already
        (4, "tag:x", "team", 1.0, 1.0, DAY_US),
        (5, "tag:x", "team", 1.0, 1.0, DAY_US + 1),
    ]
    assert swept_rows({"*": (9, sweep)}, rows) == ([(9, 4)], [(0.5, 1), (0.15, 2)])


NAMES = st.sampled_from(("stigmem:x", "stigmem://x", "rel:x", "STIGMEM:x", "user:a", "xrel:", ""))


@given(NAMES, NAMES)
def test_sql_and_python_exempt_the_same_facts(entity: str, relation: str) -> None:
    fact = "SELECT ?1 AS entity, ?2 AS relation"
    found = query(MEMORY, f"SELECT {MAY_DECAY} FROM ({fact}) AS facts", (entity, relation))
    assert found == [(not is_exempt(entity, relation),)]


ROWS = [
    ("a1", "one", "string", "A"),
    ("a2", "two", "string", "A"),
    ("b1", "one", "string", "B"),
    ("b2", "two", "string", "B"),
    ("t", "two", "text", "A"),
]


@pytest.mark.parametrize(
    ("value", "source", "several", "ended", "denied"),
    [
        (Value("string", "retracted"), "one", False, ("a1", "b1"), ("a2", "b2", "t")),
        (Value("string", "retracted"), "none", True, (), ("a1", "a2", "b1", "b2", "t")),
        (Value("text", "retracted"), "two", False, ("a2", "b2", "t"), ()),
        (Value("string", "A"), "one", False, ("a1", "b1"), ("a2",)),
        (Value("string", "A"), "none", False, (), ("a1", "a2")),
        (Value("string", "A"), "one", True, ("a1",), ("a2",)),
        (Value("string", "C"), "one", True, (), ()),
        (Value("string", "C"), "one", False, ("a1", "b1"), ()),
    ],
)
def test_a_record_of_confidence_0_ends_its_own_sources_facts_and_denies_equal_ones(
    value: Value, source: str, several: bool, ended: tuple[str, ...], denied: tuple[str, ...]
) -> None:
    """Wire 5.2; on a set-valued relation, other values are other facts."""
    own = {row[0] for row in ROWS if row[1] == source}
    assert zero_targets(value, own, several, list(ROWS)) == (ended, denied)


def test_a_conflicts_id_follows_from_its_facts_and_cause() -> None:
    digest = sha256(b"new\x00old").hexdigest()
    made = conflict_id("new", "old")
    assert made.removeprefix("stigmem:conflict:").replace("-", "") == digest[:32]
    assert conflict_id("old", "new") != made
    assert conflict_id("new", "old", b"event") not in {made, conflict_id("old", "new", b"event")}


@pytest.mark.parametrize(
    ("text", "instant_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 00:00:01+00:00", 1_000_000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1969-12-31T23:59:59.9999999999Z", -1),  # digits beyond microseconds are cut off
        ("2024-02-29T00:00:00.5Z", 1_709_164_800_500_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
    ],
)
def test_instants_are_read_to_the_microsecond(text: str, instant_us: int) -> None:
    assert parse_instant(text) == instant_us
    assert parse_instant(format_instant(instant_us)) == instant_us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-01-31",
        "2026-01-31T12:00:00",  # no offset
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00+02",
        "2026-01-31T12:00:00,5Z",
        "2026-02-29T12:00:00Z",
        "2026-01-31T24:00:00Z",  # newer Pythons accept it, older ones do not
        "2026-01-31T12:00:60Z",
        "2026-W05-6T12:00:00Z",
        "2026-01-31T12:00:00Z\n",
        "2026-01-31T12:00:00.Z",
        "\u0662026-01-31T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",  # a year that cannot be written back
        "9999-12-31T23:59:59-00:01",
        "2026-01-31T12:00:00+24:00",
    ],
)
def test_instants_that_some_pythons_refuse_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)


def test_long_instants_are_not_kept_in_memory() -> None:
    tracemalloc.start()
    for n in range(50):
        assert parse_instant(f"1970-01-01T00:00:00.{n:0100000}Z") == 0
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 500_000


def test_digests_do_not_depend_on_the_order_of_rows() -> None:
    import apsw

    from engramlog.projections.tables.digest import _sum

    sums: list[int] = []
    for order in ("ASC", "DESC"):
        db = apsw.Connection(":memory:")
        db.execute("CREATE TABLE t (n, x)")
        db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (2, 'b'), (3, NULL)")
        sums.append(_sum("t", query(db, f"SELECT * FROM t ORDER BY n {order}")))
        db.close()
    assert sums[0] == sums[1] != _sum("t", [(1, "a"), (2, "b"), (3, None)])
    assert _sum("t", [(1,)]) != _sum("u", [(1,)])
