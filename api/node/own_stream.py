"""What a node writes to its own stream when it opens: its epoch, keys and declarations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from engramlog.api.answers.same_fields import shaped
from engramlog.eventlog.event import NODE_STREAM, stream_name
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import (
    EpochStarted,
    NodeKeyRotated,
    ReplicaPromoted,
    SetValuedDeclared,
)
from engramlog.eventlog.log import Idempotency, ReadableLog
from engramlog.projections.writing.commands import Command
from engramlog.projections.writing.writer import Writer
from engramlog.replay.replication.state import promoted_state
from engramlog.replay.replication.unexplained import unexplained_erasure

SYSTEM_ACTOR = "system:engramlog"
ROTATION_PAGE_EVENTS = 2_000
EpochClock = Literal["wall", "file"]


class OwnStream:
    """The node's own stream, in the log that it writes. ``is_shared``: other nodes write it too."""

    def __init__(
        self, folder: Path, identity: Identity, log: ReadableLog, writer: Writer, *, is_shared: bool
    ) -> None:
        self._folder = folder
        self._identity = identity
        self._log = log
        self._writer = writer
        self._is_shared = is_shared

    def begin_epoch(self, clock: EpochClock) -> None:
        """Begin the identity's epoch, unless the log has it."""
        identity = self._identity
        heads = self._log.stream_heads()
        epochs = [
            epoch
            for epoch in range(1, identity.epoch + 1)
            if stream_name(identity.node_id, epoch, NODE_STREAM) in heads
        ]
        if identity.epoch in epochs:
            return
        begun: list[Command] = [
            shaped(identity, EpochStarted, public_key=identity.public_key_b64, clock=clock)
        ]
        before = promoted_state(self._folder)
        if before is not None and not epochs:
            begun.append(
                ReplicaPromoted(
                    primary_node_id=before.node_id,
                    primary_url=before.primary_url,
                    position=self._log.head().position,
                )
            )
            erasure = unexplained_erasure(self._log)
            if erasure is not None:
                begun.append(erasure)
        # If several nodes open a new log at once, one of them begins the epoch.
        key = Idempotency(SYSTEM_ACTOR, f"epoch-{identity.epoch}", b"")
        self._write(begun, key if self._is_shared else None)

    def record_rotations(self) -> None:
        """Record key rotations that a crash left out of the log."""
        rotations = self._identity.rotations
        if not rotations:
            return
        own = [name for name in self._log.stream_heads() if name.endswith(f"/{NODE_STREAM}")]
        recorded: set[str] = set()
        after = 0
        while page := self._log.read(after, ROTATION_PAGE_EVENTS, own):
            payloads = [event.payload for event in page]
            recorded |= {each.public_key for each in payloads if isinstance(each, NodeKeyRotated)}
            after = page[-1].position
        for rotation in rotations:
            if rotation.public_key not in recorded:
                self._write([shaped(rotation, NodeKeyRotated)])

    def declare(self, set_valued: Sequence[str], declared: Sequence[str]) -> None:
        """Declare relations set-valued, in addition to those in ``declared``."""
        if set(set_valued) - set(declared):
            self._write([SetValuedDeclared(relations=[*declared, *set_valued])])

    def _write(self, commands: Sequence[Command], key: Idempotency | None = None) -> None:
        self._writer.submit(commands, actor=SYSTEM_ACTOR, idempotency=key).result()
