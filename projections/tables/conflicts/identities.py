"""Identities of keys, values and conflicts: pure functions, equal on every node."""

import hashlib

from engramlog.eventlog.identifiers import id_text

HASH_BYTES = 16


def key_hash(entity: str, relation: str, scope: str, garden_id: str | None) -> bytes:
    """Identity of a key, 16 bytes."""
    text = "\x00".join((entity, relation, scope, garden_id or ""))
    return hashlib.sha256(text.encode()).digest()[:HASH_BYTES]


def value_hash(value_type: str, value_v: str) -> bytes:
    """Identity of a value, 16 bytes."""
    return hashlib.sha256(f"{value_type}\x00{value_v}".encode()).digest()[:HASH_BYTES]


def conflict_id(opened_by: str, rival_id: str, cause: bytes = b"") -> str:
    """A conflict's id, from the two facts that opened it and the event that reopened it."""
    digest = hashlib.sha256(f"{opened_by}\x00{rival_id}".encode() + cause).digest()
    return f"stigmem:conflict:{id_text(digest[:16])}"
