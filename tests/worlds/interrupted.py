"""A node, its peer, and commands on the node's directory that are killed midway.

After every kill the node's log verifies, acknowledged facts are there, and the peer keeps replaying
it and sees no second history.
"""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from engramlog.api.node.node import Node
from engramlog.eventlog.directory import BACKUP_MANIFEST
from engramlog.eventlog.kinds import Value
from engramlog.projections.tables.peers.peers import load_evidence, load_peer_streams
from engramlog.projections.writing.commands import Done
from engramlog.replay.backups import check_backup, make_backup
from engramlog.replay.replication.state import load_state
from engramlog.replay.verify import verify
from tests.worlds import killed_inside
from tests.worlds.federation.copies import Copy
from tests.worlds.federation.network import START_US, Link, Member
from tests.worlds.histories import asserted


class Household:
    """The node, its peer and the commands. ``usual`` remembers how many steps each command
    takes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self._folder = folder
        skew = time.time_ns() // 1000 - START_US
        self.node = Member(folder, "node", skew)
        self.peer = Member(folder, "peer", skew)
        self.node.meet(self.peer)
        self.peer.meet(self.node)
        self.acknowledged: set[str] = set()
        self._replayed: set[str] = set()
        self._numbers = 0
        self._state(8)
        self._look()

    def close(self) -> None:
        self.node.close()
        self.peer.close()

    def interrupt(self, name: str, share: float) -> bool:
        """Run one of ``ACTS``, kill it after a share of its usual steps, then check everything.
        Returns whether it was killed before its end."""
        usual = _USUAL.get(name)
        return self.interrupt_at(name, 0 if usual is None else 1 + int(share * usual))

    def interrupt_at(self, name: str, step: int) -> bool:
        """The same, killed at a numbered step; 0: to its end."""

        def run(*args: str | Path) -> bool:
            code, steps = killed_inside.run(step, *args)
            if steps:
                _USUAL[name] = steps
            return code != 0

        killed = ACTS[name](self, run)
        self._state(3)
        self._look()
        return killed

    def _state(self, count: int, member: Member | None = None) -> set[str]:
        facts = [
            asserted(f"user:u{self._numbers + n}", value=Value("string", "x"), scope="company")
            for n in range(count)
        ]
        self._numbers += count
        outcomes = (member or self.node).submit(facts).outcomes
        said = {str(each.fact_id) for each in outcomes if isinstance(each, Done)}
        assert len(said) == count, outcomes
        if member is None:
            self.acknowledged |= said
        return said

    def _look(self) -> None:
        """Acknowledged facts are at the node and reach the peer, which sees one history."""
        for member in (self.node, self.peer):
            member.clock.advance(5_000_000)
        _whole(self.node, self.acknowledged)
        pulled = self.peer.pull(Link(self.peer, self.node))
        assert not pulled.faults, pulled.faults
        self._replayed |= self.acknowledged
        _whole(self.peer, self._replayed)
        assert not self.peer.node.reader.ask(load_evidence)
        assert not any(each.held for each in self.peer.node.reader.ask(load_peer_streams))

    # -- the commands ---------------------------------------------------------------------

    def backup(self, run: Callable[..., bool]) -> bool:
        target = self._folder / f"backup-{self._numbers}"
        killed = run("backup", target, "--data", self.node.folder, "--quiet")
        if (target / BACKUP_MANIFEST).exists():
            check_backup(target, _quiet)
        else:
            assert killed
        shutil.rmtree(target, ignore_errors=True)
        return killed

    def restore(self, run: Callable[..., bool]) -> bool:
        """The node loses its disk after a backup, with some later facts."""
        backup = self._folder / f"backup-{self._numbers}"
        make_backup(self.node.folder, backup, self.node.clock, _quiet)
        known = set(self.acknowledged)
        self._state(2)
        self._look()
        epoch = self.node.node.identity.epoch
        self.node.close()
        shutil.rmtree(self.node.folder)
        args = ("restore", backup, "--data", self.node.folder, "--quiet")
        killed = run(*args)
        if not self.node.folder.exists():
            assert killed
            assert killed_inside.run(0, *args)[0] == 0
        self._open()
        assert self.node.node.identity.epoch > epoch
        self.acknowledged = known  # the peer keeps the rest
        shutil.rmtree(backup)
        return killed

    def rotate(self, run: Callable[..., bool]) -> bool:
        before = self.node.node.identity.public_key_b64
        self.node.close()
        killed = run("identity", "rotate", "--data", self.node.folder)
        self._open()
        assert killed or self.node.node.identity.public_key_b64 != before
        return killed

    def promote(self, run: Callable[..., bool]) -> bool:
        """A replica of the node becomes an independent node, which the peer replays as well."""
        folder = self._folder / f"replica-{self._numbers}"
        Copy(folder, self.node.node).follow(self.node.node, self.node.clock)
        args = ("promote", "--data", folder)
        killed = run(*args)
        if load_state(folder) is not None:
            assert killed
            assert killed_inside.run(0, *args)[0] == 0
        promoted = Member(self._folder, folder.name, clock=self.node.clock)
        try:
            assert promoted.id != self.node.id
            _whole(promoted, self.acknowledged)
            said = self._state(2, promoted)
            self.peer.meet(promoted)
            pulled = self.peer.pull(Link(self.peer, promoted))
            assert not pulled.faults, pulled.faults
            _whole(self.peer, said)
        finally:
            promoted.close()
        shutil.rmtree(folder)
        return killed

    def _open(self) -> None:
        self.node.node = Node.open(self.node.folder, clock=self.node.clock)


def _whole(member: Member, facts: set[str]) -> None:
    """The log verifies, and the facts are there."""
    report = verify(member.node.log)
    assert report.fault is None, report.fault
    lost = [fact for fact in facts if member.node.reader.slot_of(fact) is None]
    assert not lost, f"{len(lost)} of {len(facts)} facts are lost at {member.name}"


def _quiet(_name: str, _done: int, _total: int) -> None:
    pass


ACTS: dict[str, Callable[[Household, Callable[..., bool]], bool]] = {
    "backup": Household.backup,
    "restore": Household.restore,
    "rotate": Household.rotate,
    "promote": Household.promote,
}
_USUAL: dict[str, int] = {}
"""Steps of a complete command, by name; the first run of each is not killed."""
