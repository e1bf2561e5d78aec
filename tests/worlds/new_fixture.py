"""Golden bytes for a new kind: ``python -m tests.worlds.new_fixture PAYLOAD`` prints them.

``PAYLOAD`` is the JSON of one payload with every field. The header's ids and times have no meaning;
compare the output with FORMAT.md before storing it.
"""

import json
import sys
from hashlib import sha256

import msgspec

from engramlog.eventlog import codec
from engramlog.eventlog.event import Header, stream_name
from engramlog.eventlog.kinds import SCHEMA_VERSIONS, AnyPayload, kind_of

ORIGIN = "stigmem:node:5f0c2a44-9d0b-4c7e-8a53-0d7be37c1a11"


def fixture_of(text: str) -> str:
    """The fixture of a payload."""
    payload = msgspec.json.decode(text, type=AnyPayload)
    kind, data = kind_of(payload), codec.encode_payload(payload)
    salt, before = sha256(b"salt of " + data).digest()[:16], sha256(b"before " + data).digest()
    header = Header(
        format=codec.FORMAT_VERSION,
        event_id=bytes.fromhex("018bcfe5680070008000000000000001"),
        origin=ORIGIN,
        stream=stream_name(ORIGIN, 1, "node"),
        stream_seq=1,
        kind=kind,
        schema_version=SCHEMA_VERSIONS[kind],
        hlc=1_700_000_000_000_001,
        recorded_at=1_700_000_000_000_001,
        actor="agent:alice",
        causation_id=None,
        idempotency_key=None,
        prev_hash=before,
        payload_hash=codec.payload_hash(salt, data),
    )
    encoded = codec.encode_header(header)
    fields = msgspec.structs.asdict(header)
    golden = {
        "payload": json.loads(data),
        "payload_hex": data.hex(),
        "header": {name: v.hex() if isinstance(v, bytes) else v for name, v in fields.items()},
        "header_hex": encoded.hex(),
        "salt_hex": salt.hex(),
        "payload_hash": header.payload_hash.hex(),
        "hash": codec.header_hash(encoded).hex(),
    }
    return json.dumps(golden, indent=2, ensure_ascii=False)


if __name__ == "__main__":
    print(fixture_of(sys.argv[1]))
