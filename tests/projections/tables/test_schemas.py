"""A projector's tables have other columns only in another version of it."""

from zlib import crc32

from engramlog.projections.tables.registry import PROJECTORS

SCHEMAS = {
    "keys": (3, "c7d47ba3"),
    "agent_keys": (1, "5b8a828e"),
    "policies": (1, "7f613a2f"),
    "trust": (2, "dca05b1f"),
    "gardens": (1, "e91d99ef"),
    "aliases": (1, "86f65ad2"),
    "facts": (5, "fb2e9fb7"),
    "attributes": (2, "07908ae6"),
    "entity_edges": (4, "99dd9f97"),
    "fact_retractions": (2, "5b47a4ad"),
    "contradictions": (5, "4c5a65f5"),
    "denials": (4, "a2448797"),
    "resolutions": (2, "99d5af8b"),
    "derivations": (2, "155f56ff"),
    "decay": (2, "4294fb11"),
    "access": (4, "e2b77b48"),
    "feedback": (2, "4ed466c8"),
    "cards": (2, "2d79f04e"),
    "verdicts": (1, "cca669ea"),
    "recall_receipts": (2, "2e16c422"),
    "capabilities": (2, "be528595"),
    "erasures": (2, "95c4a382"),
    "episodes": (1, "9ec2fb06"),
    "deltas": (3, "cdc284d7"),
    "consolidation": (1, "366f8253"),
    "peers": (2, "0ed88c6d"),
    "foreign_ends": (4, "fe547f2e"),
    "foreign_facts": (3, "df652cf2"),
    "subscriptions": (2, "7d29c03c"),
    "summaries": (1, "9f1bebd1"),
    "tombstones": (2, "a79176ab"),
    "manifests": (1, "ecf86fe1"),
}
"""Version and CRC of each projector's schema. One in its first version may be absent."""


def test_another_schema_has_another_version() -> None:
    """A node with tables of the same version does not make them again: its next write would fail,
    or leave out the new column."""
    assert {
        projector.name: (projector.version, _crc(projector.schema))
        for projector in PROJECTORS
        if projector.version > 1 or projector.name in SCHEMAS
    } == SCHEMAS, "raise the projector's version, then put its new numbers here"


def _crc(schema: str) -> str:
    return f"{crc32(' '.join(schema.split()).encode()):08x}"
