"""How far the embedding worker is."""

from msgspec import Struct


class WorkerStatus(Struct, frozen=True):
    """The worker's state.

    Attributes:
        position: every fact recorded up to here has its vector, if it needs one.
        lag: how many positions the log is ahead of that.
        waiting: facts that wait for a vector.
        skipped: facts that the provider refuses to embed; retried at the next start.
        vectors: facts with a vector in the table.
        memory_bytes: vectors in this process's memory.
        error: why it is stuck, or None.
    """

    position: int
    lag: int
    waiting: int
    skipped: int
    vectors: int
    memory_bytes: int
    error: str | None
