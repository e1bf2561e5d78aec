"""Every error the event log can raise, drawn as one tree.

EventLogError
├── DataDirectoryError
│   ├── DirectoryLocked        another process holds the data directory
│   ├── DirectoryCopied        the directory is a copy: two nodes would share one identity
│   ├── LogCutBack             the log ends before what was made from it
│   └── KeyFileError           the signing key is missing, unreadable or unsafe
├── AppendError
│   ├── IdempotencyConflict    same actor and key, another request
│   ├── ExpectationFailed      the condition of a conditional append does not hold
│   ├── EraseRefused           no fact_erased event names a payload that is to be erased
│   ├── ClockSkew              a remote clock reading is too far from ours
│   └── PayloadTooLarge        a payload exceeds the limit of the format
├── StorageError
│   ├── StorageFull            no space left; nothing of the transaction was kept
│   ├── StorageFailed          the device or file failed; nothing was acknowledged
│   ├── LogBusy                another node holds the log's lock; nothing was written
│   ├── NotDurable             the server would not hold what it acknowledges; nothing was written
│   ├── OutcomeUnknown         the server was lost at the commit; it may have been written
│   └── HistoryChanged         the server holds another history than this node has seen
├── CorruptLog                 stored bytes contradict themselves; names the position
├── UnknownKind                an event of a kind or version that this release cannot read
└── LogClosed                  the log was used after close
"""


class EventLogError(Exception):
    """Base of everything this package raises on purpose."""


class DataDirectoryError(EventLogError):
    """The data directory cannot be used as it is."""


class DirectoryLocked(DataDirectoryError):
    """Another process has this data directory open for writing."""


class DirectoryCopied(DataDirectoryError):
    """The directory is a copy: opening it would make a second node with one identity."""


class LogCutBack(DataDirectoryError):
    """The log ends before data that was made from it: acknowledged events are gone."""


class KeyFileError(DataDirectoryError):
    """The node's signing key file is missing, unreadable, or readable by others."""


class AppendError(EventLogError):
    """An append was refused; nothing of it was written."""


class IdempotencyConflict(AppendError):
    """The actor used this idempotency key before, for a different request."""

    def __init__(self, actor: str, key: str) -> None:
        super().__init__(f"idempotency key {key!r} of {actor} was used before for another request")


class ExpectationFailed(AppendError):
    """The condition of a conditional append does not hold."""

    def __init__(self, what: str, expected: object, actual: object) -> None:
        super().__init__(f"{what}: expected {expected}, is {actual}")


class EraseRefused(AppendError):
    """No ``fact_erased`` event names the payload to erase; nothing was written."""


class ClockSkew(AppendError):
    """A remote hybrid clock reading is outside the tolerated window around our clock."""


class PayloadTooLarge(AppendError):
    """A payload is larger than the format allows."""


class StorageError(EventLogError):
    """The disk refused; the transaction was rolled back and nothing was acknowledged."""


class StorageFull(StorageError):
    """No space left on the device that holds the log."""


class StorageFailed(StorageError):
    """The device or file system failed while reading or writing."""


class LogBusy(StorageError):
    """Another node holds the log's lock and did not give it up in time; nothing was written."""


class NotDurable(StorageError):
    """The server's settings would let an acknowledged write be lost; nothing was written."""


class OutcomeUnknown(StorageError):
    """The server was lost during the commit: the log has the whole transaction or nothing of it.
    Nothing is acknowledged; a retry with the same idempotency key is safe."""


class HistoryChanged(StorageError):
    """The server's log is not the one that this node has followed: it is shorter, or holds another
    event at this node's head. Writing would fork it."""


class CorruptLog(EventLogError):
    """Stored bytes contradict themselves. ``position``: the first position at fault (0 if no single
    one is). ``reason``: the contradiction, in words."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"position {position}: {reason}")
        self.position = position
        self.reason = reason


class UnknownKind(EventLogError):
    """The event's kind or schema version is not known to this release."""


class LogClosed(EventLogError):
    """The log has been closed."""
