"""Content identifiers: a hash of a fact's content (the protocol's CID v1).

The body is JSON over seven sorted keys without spaces. It is written by hand because every fact is
hashed (a test compares it with ``json.dumps``). A number is ``repr(float(v))``, so the integer and
float forms of one number share a CID and survive a round trip.
"""

import hashlib
import re
from json.encoder import encode_basestring

from msgspec.structs import replace

from engramlog.eventlog.kinds import FactAsserted

_quote = encode_basestring
"""A JSON string, equal to that of ``json.dumps(..., ensure_ascii=False)``."""
_HASH = re.compile(r"^(?:sha256:)?([0-9a-f]{64})$")


def cid_of(fact: FactAsserted) -> str:
    """``sha256:<64 hex>`` of a fact's body; entity and source in stored form."""
    value = fact.value
    text = (
        f'{{"confidence":{float(fact.confidence)!r},"entity":{_quote(fact.entity)}'
        f',"relation":{_quote(fact.relation)},"scope":{_quote(fact.scope)}'
        f',"source":{_quote(fact.source)}'
        f',"value_type":{_quote(value.type)},"value_v":{_quote(value.v)}}}'
    )
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def with_cid(fact: FactAsserted) -> FactAsserted:
    """The fact with its content id."""
    return replace(fact, cid=cid_of(fact))


def parse_fact_hash(text: str) -> str:
    """The 64 hex digits of a FactHash, with or without ``sha256:``. Raises ValueError."""
    match = _HASH.match(text)
    if match is None:
        raise ValueError("a fact hash is 64 lower-case hex digits, with or without 'sha256:'")
    return match[1]
