"""Cleaning up after erasures: every file of the node loses the erased text.

Once an erasure is committed, no answer shows the text. Bytes remain: freed pages, write-ahead logs,
vectors, cached embeddings, archive segments, receipts of recalls that returned it. Each step is
idempotent and needs no knowledge of the text, so an interrupted cleaning simply runs again. The
receipt is signed and recorded only after every step has passed.
"""

import base64
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.durable_file import replace
from engramlog.eventlog.errors import StorageFailed
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import event_ids_of, id_text
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import ErasureCertified, FactErased, RecallAnswered
from engramlog.eventlog.log import EventLog
from engramlog.projections.archive.archive import Archive
from engramlog.projections.embedding.cache import text_key
from engramlog.projections.embedding.recipe import composed
from engramlog.projections.image.reader import Reader
from engramlog.projections.moment import LIVE, format_instant
from engramlog.projections.tables.erasing import events_at
from engramlog.projections.tables.facts.erasures import (
    erasures_after,
    find_erasure,
    list_erasures,
    naming_positions,
    unclean,
)
from engramlog.projections.tables.recalls.recall_receipts import receipt_positions
from engramlog.projections.tables.storage_faults import storage_errors
from engramlog.projections.tables.store import other_generations
from engramlog.projections.writing.commands import Command, EraseEvents
from engramlog.projections.writing.writer import Writer
from engramlog.replay.rebuild import remove_replaced, rewrite_serving
from engramlog.replay.snapshots import Snapshots

RECEIPT_CONTEXT = b"engramlog/erasure-receipt/1\n"
EVENTS_A_COMMAND = 2_000
ACTOR = "system:engramlog:erasure"

_log = logging.getLogger(__name__)
_canonical = msgspec.json.Encoder(order="sorted")


class NamedErasure(Struct, frozen=True):
    """A ``fact_erased`` event of an erasure, as in its receipt; ``hash`` in hex."""

    position: int
    event_id: str
    stream: str
    stream_seq: int
    hash: str


class ReceiptDocument(Struct, frozen=True):
    """The statement in a receipt: when an erasure began, and which facts and events it named. At
    ``completed_at`` no file of the node held anything of it. ``public_key`` signed it."""

    erasure_id: str
    node_id: str
    public_key: str
    reason: str
    requested_at: str
    completed_at: str
    facts: int
    events: int
    named: list[NamedErasure]
    cleaned: list[str]
    format: int = 1


class Cleaner:
    """Runs the steps. Call from any thread but the writer's and the event loop's, one at a time.

    Args:
        link: of the projections file.
        purge_vectors: removes erased texts from the files of vectors and cached embeddings, given
            the log's position, the erased facts and the keys of all texts that remain.
        snapshots: removed if they hold erased facts, before the tables are rewritten: a rebuild
            that started from one shows as another generation of the tables.
        copies: whether another node signs the receipts now, as a replica's primary does: this one
            only cleans its own files.
        copied: whether another node has ever signed receipts in this log. They say nothing of this
            node's files.
        further: more steps, by name, for other copies.
    """

    def __init__(
        self,
        log: EventLog,
        writer: Writer,
        reader: Reader,
        identity: Identity,
        clock: Clock,
        link: Path,
        archive: Archive,
        purge_vectors: Callable[[int, frozenset[str], Iterator[bytes]], None],
        snapshots: Snapshots,
        further: dict[str, Callable[[list[int]], None]],
        copies: Callable[[], bool],
        *,
        copied: bool,
    ) -> None:
        self._copies = copies
        self._log = log
        self._writer = writer
        self._reader = reader
        self._identity = identity
        self._clock = clock
        self._link = link
        self._copied = copied or self._clean_position_file.exists()
        self._archive = archive
        self._purge = purge_vectors
        self._snapshots = snapshots
        self._further = further

    def clean(self, note: Callable[[str], None] = lambda _step: None) -> list[str]:
        """Clean up after every unclean erasure; returns them. Those without a receipt get one,
        unless another node signs. ``note`` is called with the name of each step before it begins.
        Raises StorageError, WriterDegraded: a file cannot be cleaned now; call again later."""
        done: list[str] = []
        uncertified = self._uncertified()
        if uncertified:
            note("recall receipts")
            done.append("recall receipts")
            self._erase_receipts(uncertified)
        newest = self._newest()
        waiting = self.unclean()
        if not waiting:
            return []
        for name, step in self._steps(waiting).items():
            note(name)
            step()
            done.append(name)
        if self._copied:
            replace(self._clean_position_file, str(newest).encode())
        if uncertified and not self._copies():
            note("receipt")
            for erasure_id in uncertified:
                self._certify(erasure_id, done)
        return waiting

    def unclean(self) -> list[str]:
        """Erasures to clean up after: those without a receipt, and all since this node's last
        cleaning if another may have signed theirs."""
        found = self._uncertified()
        if self._copied:
            try:
                cleaned = int(self._clean_position_file.read_bytes())
            except (FileNotFoundError, ValueError):
                cleaned = 0
            found += self._reader.ask(erasures_after, cleaned)
        return list(dict.fromkeys(found))

    def _uncertified(self) -> list[str]:
        """Erasures to sign a receipt for."""
        return [] if self._copies() else self._reader.ask(unclean)

    @property
    def _clean_position_file(self) -> Path:
        """The file with the position up to which this node's files are clean, if another node may
        sign receipts."""
        return self._link.with_name("cleaned-position")

    def _newest(self) -> int:
        rows = self._reader.ask(list_erasures, LIVE, 1)
        return max((p for row in rows for p in self._reader.ask(naming_positions, row.erasure_id)),
                   default=0)  # fmt: skip

    def _steps(self, waiting: list[str]) -> dict[str, Callable[[], object]]:
        def positions() -> list[int]:
            return self.positions(waiting)

        steps: dict[str, Callable[[], object]] = {
            "log": self._log.scrub,
            "snapshots": lambda: self._snapshots.remove_holding(positions()),
            "tables": lambda: self._scrub_tables(positions()),
            "vectors": lambda: self._purge_vectors(waiting),
            "archive": lambda: self._archive.rewrite(positions()),
        }
        for name, step in self._further.items():
            steps[name] = lambda step=step: step(positions())
        return steps

    def positions(self, erasures: list[str]) -> list[int]:
        """Positions of the events whose payloads the erasures removed."""
        return self.positions_named(
            [erasure for each in erasures for _, erasure in self._events(each)]
        )

    def positions_named(self, erasures: list[FactErased]) -> list[int]:
        """Positions of the events that these erasures name."""
        named = [event_id for erasure in erasures for event_id in event_ids_of(erasure.events)]
        return sorted(self._log.positions_of(named).values())

    def _erase_receipts(self, waiting: list[str]) -> None:
        """Erase receipts of recalls that returned an erased fact: the question may repeat it."""
        for erasure_id in waiting:
            facts = self._facts(erasure_id)
            found = receipts_of(self._log, self._reader.ask(receipt_positions), facts)
            reason = self._events(erasure_id)[0][1].reason
            for start in range(0, len(found), EVENTS_A_COMMAND):
                some = tuple(found[start : start + EVENTS_A_COMMAND])
                self._submit(EraseEvents(erasure_id=erasure_id, reason=reason, events=some))

    def _scrub_tables(self, positions: list[int]) -> None:
        """Replace the projections file by a clean copy, and remove earlier ones. Raises
        StorageFailed during a rebuild, or while a projector is halted: it erases nothing."""
        remove_replaced(self._writer)
        rebuilding = StorageFailed("the tables are being rebuilt: they are cleaned after that")
        if other_generations(self._link):
            raise rebuilding
        with storage_errors():
            rewrite_serving(self._link, self._log, self._writer, self._reader.pool.reopen)
        if self._snapshots.remove_holding(positions) and other_generations(self._link):
            raise rebuilding

    def _purge_vectors(self, waiting: list[str]) -> None:
        gone = frozenset(fact for each in waiting for fact in self._facts(each))
        said = (
            text_key(composed(row.entity, row.relation, row.value_v))
            for page in self._reader.fact_pages()
            for row in page
        )
        self._purge(self._log.head().position, gone, said)

    def _certify(self, erasure_id: str, steps: list[str]) -> None:
        """Sign a receipt that names the cleaned files, and write it to the log."""
        row = self._reader.ask(find_erasure, erasure_id)
        assert row is not None
        events = self._events(erasure_id)
        document = ReceiptDocument(
            erasure_id=erasure_id,
            node_id=self._identity.node_id,
            public_key=self._identity.public_key_b64,
            reason=row.reason,
            requested_at=format_instant(row.erased_at),
            completed_at=format_instant(self._clock.now_us()),
            facts=row.facts,
            events=row.events,
            named=[
                NamedErasure(
                    event.position,
                    id_text(event.event_id),
                    event.header.stream,
                    event.header.stream_seq,
                    event.hash.hex(),
                )
                for event, _ in events
            ],
            cleaned=steps,
        )
        text = _canonical.encode(document)
        signature = base64.b64encode(self._identity.sign(RECEIPT_CONTEXT + text)).decode()
        self._submit(
            ErasureCertified(erasure_id=erasure_id, document=text.decode(), signature=signature)
        )
        _log.info("erasure %s is clean", erasure_id)

    def _events(self, erasure_id: str) -> list[tuple[Recorded, FactErased]]:
        return [
            (event, event.payload)
            for event in events_at(self._log, self._reader.ask(naming_positions, erasure_id))
            if isinstance(event.payload, FactErased)
        ]

    def _facts(self, erasure_id: str) -> frozenset[str]:
        return frozenset(
            fact for _, erasure in self._events(erasure_id) for fact in erasure.fact_ids
        )

    def _submit(self, command: Command) -> None:
        self._writer.submit([command], actor=ACTOR).result()


def receipts_of(
    log: EventLog,
    positions: list[int],
    facts: frozenset[str],
    says: Callable[[str], bool] = lambda _text: False,
) -> list[str]:
    """Event ids of the recall receipts at ``positions`` that returned one of ``facts``, or whose
    question or request satisfies ``says``."""
    found: list[str] = []
    for event in events_at(log, positions):
        receipt = event.payload
        if isinstance(receipt, RecallAnswered) and (
            any(each.fact_id in facts for each in receipt.returned) or asks(receipt, says)
        ):
            found.append(id_text(event.event_id))
    return found


def asks(receipt: RecallAnswered, says: Callable[[str], bool]) -> bool:
    """Whether a receipt's question, or a text in its request, satisfies ``says``. The request as
    JSON would not do: it escapes quotes, and has the names and flags of every request."""
    return any(says(text) for text in _texts([receipt.query, *receipt.request.values()]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _texts(each)
