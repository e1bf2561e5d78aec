"""Why the writer takes no submission."""

from __future__ import annotations


class WriterBusy(Exception):
    """More submissions wait than the writer's bound; nothing was written. Try again later."""


class WriterDegraded(Exception):
    """The projections cannot be brought up to the log; writes are refused until they are."""


class ReplicaReadOnly(Exception):
    """This node is a replica: it writes what its primary wrote, and nothing else."""


class WriterClosed(Exception):
    """The writer has been closed."""
