"""The event log: what an event is, how it is encoded, chained, signed, stored and read.

Owns ``log.db`` and the node's identity. Promises: an acknowledged event is durable, events never
change, and damage is found and reported, never repaired silently. Knows nothing of facts or tables.
``FORMAT.md`` describes the bytes, ``engramlog.eventlog.kinds`` has the payloads.
"""
