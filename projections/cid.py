"""Content identifiers: a hash of a fact's content (the protocol's CID v1).

The body is JSON over seven sorted keys without spaces. It is written by hand because every fact is
hashed (a test compares it with ``json.dumps``). A number is ``repr(float(v))``, so the integer and
float forms of one number share a CID and survive a round trip.
"""

import hashlib
import re
from json.encoder import encode_basestring

from msgspec.structs import replace

from engramlog.eventlog.kinds import FactAsserted, Value

_quote = encode_basestring
"""A JSON string, equal to that of ``json.dumps(..., ensure_ascii=False)``."""
_HASH = re.compile(r"^(?:sha256:)?([0-9a-f]{64})$")


def compute_cid(
    *, entity: str, relation: str, value: Value, source: str, confidence: float, scope: str
) -> str:
    """``sha256:<64 hex>`` of a fact's body; entity and source in stored form."""
    text = (
        f'{{"confidence":{float(confidence)!r},"entity":{_quote(entity)}'
        f',"relation":{_quote(relation)},"scope":{_quote(scope)},"source":{_quote(source)}'
        f',"value_type":{_quote(value.type)},"value_v":{_quote(value.v)}}}'
    )
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def cid_of(fact: FactAsserted) -> str:
    """The content id of a fact's content, computed again."""
    return compute_cid(
        entity=fact.entity,
        relation=fact.relation,
        value=fact.value,
        source=fact.source,
        confidence=fact.confidence,
        scope=fact.scope,
    )


def with_cid(fact: FactAsserted) -> FactAsserted:
    """The fact with its content id."""
    return replace(fact, cid=cid_of(fact))


def parse_fact_hash(text: str) -> str:
    """The 64 hex digits of a FactHash, with or without ``sha256:``. Raises ValueError."""
    match = _HASH.match(text)
    if match is None:
        raise ValueError("a fact hash is 64 lower-case hex digits, with or without 'sha256:'")
    return match[1]
