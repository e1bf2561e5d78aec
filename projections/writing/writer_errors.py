"""Why the writer refuses a submission."""


class WriterBusy(Exception):
    """More submissions wait than the writer's bound; nothing was written. Try again later."""


class WriterDegraded(Exception):
    """The projections cannot be brought up to the log; writes are refused until then."""


class ReplicaReadOnly(Exception):
    """This node is a replica: it writes only what its primary wrote."""


class WriterClosed(Exception):
    """The writer is closed."""
