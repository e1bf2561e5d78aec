"""The event log: what an event is, how it is encoded, chained, signed, stored and read.

Owns ``log.db`` and the node's identity. Promises: an acknowledged event is durable, events never
change, and damage is found and reported, never repaired silently. Knows nothing of facts or tables.
``FORMAT.md`` describes the bytes, ``engramlog.eventlog.kinds`` has the payloads.
"""

from engramlog.eventlog.clock import (
    Clock,
    FixedClock,
    HybridClock,
    SystemClock,
    format_hlc,
    pack_hlc,
    parse_hlc,
)
from engramlog.eventlog.directory import DataDirectory
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import (
    AppendError,
    ClockSkew,
    CorruptLog,
    DataDirectoryError,
    DirectoryCopied,
    DirectoryLocked,
    EventLogError,
    ExpectationFailed,
    IdempotencyConflict,
    KeyFileError,
    LogClosed,
    PayloadTooLarge,
    StorageError,
    StorageFailed,
    StorageFull,
    UnknownKind,
)
from engramlog.eventlog.event import (
    NODE_STREAM,
    Draft,
    Header,
    Recorded,
    Stored,
    UnknownPayload,
    scope_partition,
    stream_name,
)
from engramlog.eventlog.identifiers import IdentifierSource, id_bytes, id_text
from engramlog.eventlog.identity import Identity, Rotation
from engramlog.eventlog.log import (
    Appended,
    AppendTransaction,
    EventLog,
    Expect,
    Head,
    Idempotency,
    StreamHead,
    Subscription,
)
from engramlog.eventlog.signing import SignedHead, SignedHeads, read_heads, sign_heads, write_heads

__all__ = [
    "NODE_STREAM",
    "AppendError",
    "AppendTransaction",
    "Appended",
    "Clock",
    "ClockSkew",
    "CorruptLog",
    "DataDirectory",
    "DataDirectoryError",
    "DirectoryCopied",
    "DirectoryLocked",
    "Draft",
    "EventLog",
    "EventLogError",
    "Expect",
    "ExpectationFailed",
    "FixedClock",
    "Head",
    "Header",
    "HybridClock",
    "Idempotency",
    "IdempotencyConflict",
    "IdentifierSource",
    "Identity",
    "KeyFileError",
    "LogClosed",
    "MemoryLog",
    "PayloadTooLarge",
    "Recorded",
    "Rotation",
    "SignedHead",
    "SignedHeads",
    "SqliteLog",
    "StorageError",
    "StorageFailed",
    "StorageFull",
    "Stored",
    "StreamHead",
    "Subscription",
    "SystemClock",
    "UnknownKind",
    "UnknownPayload",
    "format_hlc",
    "id_bytes",
    "id_text",
    "pack_hlc",
    "parse_hlc",
    "read_heads",
    "scope_partition",
    "sign_heads",
    "stream_name",
    "write_heads",
]
