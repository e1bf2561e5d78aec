"""Destinations of imported lines: an open node, a running node of this machine, or one by URL."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from engramlog.api.client.client import Client
from engramlog.api.node.node import Node
from engramlog.api.transfer.importing import RefusedLine, Result, SinkError, Written
from engramlog.api.transfer.lines.base import IMPORT_ACTOR, LineError, line_uri
from engramlog.api.transfer.lines.declarations import (
    Destination,
    GardenLine,
    TombstoneLine,
    tombstone_command,
)
from engramlog.api.transfer.lines.facts import AssertLine, RetractLine, stated_command, stated_fact
from engramlog.api.transfer.lines.key_translation import NamedByKey
from engramlog.api.transfer.lines.line_kinds import AnyLine, ResolveLine, command_of, encode_line
from engramlog.api.transfer.lines.memories import (
    DeltasLine,
    EpisodeLine,
    SummaryLine,
    episode_command,
)
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.errors import EventLogError
from engramlog.eventlog.event import fact_partition
from engramlog.projections.authorization import everything
from engramlog.projections.contradictions.conflicts import conflict_between
from engramlog.projections.episodes.reading import place_of_episode, same_episode
from engramlog.projections.tables.declared.garden_directory import Garden
from engramlog.projections.tables.facts.fact_rows import FactRow
from engramlog.projections.writing.commands import Command, Done, Refused, ResolveConflict
from engramlog.projections.writing.submission import WriterBusy, WriterClosed, WriterDegraded

_REFUSALS = (EventLogError, WriterBusy, WriterClosed, WriterDegraded)


class NodeSink:
    """Lines into an open node, through its writer.

    ``clock``: the node's own clock, if the file's times become receipt times.
    """

    acts_on_rules = False  # only a node that serves has a scheduler

    def __init__(
        self, node: Node, value_bytes_max: int, *, clock: FixedClock | None = None
    ) -> None:
        self.node = node
        self._clock = clock
        self._position = node.log.head().position
        self._destination = Destination(
            value_bytes_max,
            self._find_garden,
            lambda episode: node.reader.ask(place_of_episode, episode),
        )

    def write(
        self, lines: Sequence[AnyLine], *, received_at: Sequence[int] | None, atomic: bool
    ) -> list[Result]:
        results: list[Result] = [None] * len(lines)
        commands: list[Command] = []
        places: list[int] = []
        for place, line in enumerate(lines):
            results[place] = self._done_before(line)
            if results[place] is not None:
                continue
            try:
                commands.append(self._command(line))
                places.append(place)
            except LineError as fault:
                results[place] = RefusedLine(fault.message, fault.field)
                if atomic:
                    return results
        times = None if received_at is None else [received_at[place] for place in places]
        outcomes = self._submit(commands, times, atomic) if commands else []
        refused = atomic and any(isinstance(outcome, Refused) for outcome in outcomes)
        for place, outcome in zip(places, outcomes, strict=True):
            if isinstance(outcome, Refused):
                results[place] = RefusedLine(outcome.message, outcome.field or "")
            elif not refused:
                results[place] = self._written(lines[place], outcome)
        return results

    def find(self, cid: str, back: int = 1) -> str | None:
        view = self.node.reader.pin()
        slots = [slot for slot in self.node.reader.slots_of_cid(cid) if slot < view.count]
        if not slots:
            return None
        slot = slots[max(0, len(slots) - back)]
        return self.node.reader.rows([int(view.from_position[slot])])[0].id

    def find_known(self, lines: Sequence[AssertLine]) -> list[list[str]]:
        return [self._known(line) for line in lines]

    def _known(self, line: AssertLine) -> list[str]:
        reader = self.node.reader
        try:
            wanted = stated_command(line, self._destination).fact
        except LineError:  # the write tells
            return []
        found = reader.slots_of_cid(wanted.cid)
        if not found:
            return []
        view = reader.pin()
        slots = np.array(found, dtype=np.int32)
        slots = slots[slots < view.count]
        live = ~view.ended(slots, self.node.moment())
        rows = reader.rows(view.from_position[slots].tolist())
        return [
            row.id
            for row, is_live in zip(rows, live, strict=True)
            if (row.id == line.key or _states(line, row, is_live=bool(is_live)))
            and (row.valid_from, row.valid_until) == (wanted.valid_from, wanted.valid_until)
            and row.garden_id == wanted.garden_id
            and (not line.derived_from or row.stated().derived_from == wanted.derived_from)
        ]

    def find_episode(self, line: EpisodeLine) -> NamedByKey | None:
        episode = episode_command(line, self._destination)
        partition = fact_partition(episode.scope, episode.garden_id)
        by = line.recorded_by
        actor = IMPORT_ACTOR if by is None else line_uri(by, "recorded_by")
        found = self.node.reader.ask(same_episode, partition, episode, actor)
        return None if found is None else NamedByKey(found[0], found[1], line.id or found[0])

    def _find_garden(self, name: str) -> Garden | None:
        """A garden of the present: lines make gardens."""
        return self.node.reader.gardens.find(name)

    def _submit(
        self, commands: Sequence[Command], received_at: Sequence[int] | None, atomic: bool
    ) -> list[Done | Refused]:
        if self._clock is not None and received_at is not None:
            self._clock.set(received_at[-1])
        try:
            future = self.node.writer.submit(
                commands, actor=IMPORT_ACTOR, received_at=received_at, atomic=atomic
            )
            return future.result().outcomes
        except _REFUSALS as fault:
            raise SinkError(str(fault)) from fault

    def _command(self, line: AnyLine) -> Command:
        if isinstance(line, ResolveLine):
            return self._resolution(line)
        if isinstance(line, TombstoneLine):
            return tombstone_command(line, self.node)
        return command_of(line, self._destination)

    def _resolution(self, line: ResolveLine) -> ResolveConflict:
        """The conflict between the values of two facts, in favour of the winner's."""
        conflict_id, winner_id = open_conflict(self.node, line.winner, line.loser)
        source = IMPORT_ACTOR if line.source is None else line_uri(line.source, "source")
        new_fact = None
        if line.states is not None:
            new_fact = stated_fact(line.states, self._destination.value_bytes_max)
            source = new_fact.source
        return ResolveConflict(
            conflict_id=conflict_id,
            source=source,
            winning_fact_id=winner_id if new_fact is None else None,
            new_value=None if new_fact is None else new_fact.value,
            note=line.note,
        )

    def _done_before(self, line: AnyLine) -> Written | None:
        """What an earlier import of the line did, if it did."""
        match line:
            case ResolveLine():
                return self._settled(line)
            case RetractLine(id=str(fact)):
                view = self.node.reader.pin()
                slot = view.slot_of(fact)
                ended = slot is not None and view.ended(np.array([slot]), self.node.moment()).all()
                return Written("existing", fact, self._position) if ended else None
            case GardenLine(id=str(garden), remove=False):
                found = self._find_garden(line.slug)
                same = found is not None and found.id == garden
                return Written("existing", None, self._position) if same else None
            case _:
                return None

    def _settled(self, line: ResolveLine) -> Written | None:
        view, reader = self.node.reader.pin(), self.node.reader
        rights, now = everything().past_tombstones(), self.node.moment()
        found = conflict_between(reader, view, rights, now, line.winner, line.loser, "resolved")
        winner = None if found is None else found.row.winner_id
        if found is None or winner is None:
            return None
        mine, chosen = (view.slot_of(fact) for fact in (winner, line.winner))
        if mine is None or chosen is None:
            return None
        row = reader.rows([int(view.from_position[mine])])[0]
        if line.states is None:
            same, facts = view.value[mine] == view.value[chosen], {}
        else:
            same, key = row.cid == line.states.fact.cid, line.states.key
            facts = {} if key is None else {key: winner}
        note = found.row.resolution_fact_id
        return Written("existing", note, self._position, facts=facts) if same else None

    def _written(self, line: AnyLine, done: Done) -> Written:
        if done.position is not None:
            self._position = done.position
        if isinstance(line, AssertLine):
            status = "asserted" if done.created else "existing"
            return Written(status, done.fact_id, self._position)
        if isinstance(line, RetractLine):
            return Written("retracted", done.fact_id, self._position)
        if isinstance(line, ResolveLine):
            key = None if line.states is None else line.states.key
            facts = {} if key is None or done.fact_id is None else {key: done.fact_id}
            note = done.detail.get("resolution_fact_id")
            return Written("resolved", note, self._position, facts=facts)
        if isinstance(line, EpisodeLine):
            return self._recorded(line, done)
        if isinstance(line, DeltasLine | SummaryLine):
            status = "applied" if done.created else "existing"
            return Written(status, None, self._position, facts=done.detail["facts"])
        return Written("declared", None, self._position)

    def _recorded(self, line: EpisodeLine, done: Done) -> Written:
        key: str = done.detail["episodes"][0]["key"]
        if done.events:
            return Written("recorded", key, self._position, hash=done.events[0].hash.hex())
        known = self.find_episode(line)
        return Written("existing", key, self._position, hash=known.hash if known else None)


def _states(line: AssertLine, row: FactRow, *, is_live: bool) -> bool:
    """Whether a line may have stated a fact of its content: a live one; if its key is an id, one
    that an import wrote, live or ended. The node's own is another, which its end must not end."""
    stated = row.actor == IMPORT_ACTOR if line.names_fact else is_live
    return stated and row.received_from is None


class ControlSink:
    """Lines into the node that holds the directory, over its control routes."""

    acts_on_rules = True

    def __init__(self, client: Client) -> None:
        self._client = client

    def write(
        self, lines: Sequence[AnyLine], *, received_at: Sequence[int] | None, atomic: bool
    ) -> list[Result]:
        if received_at is not None:
            raise SinkError("a running node sets its own receipt times")
        answer = self._client.request(
            "POST",
            "/v1/control/import",
            query={"atomic": atomic},
            raw=b"[" + b",".join(encode_line(line) for line in lines) + b"]",
        )
        return [result_of(item) for item in answer["results"]]

    def find(self, cid: str, back: int = 1) -> str | None:
        answer = self._client.get("/v1/control/find", {"cid": cid, "back": back})
        found: str | None = answer["id"]
        return found

    def find_known(self, lines: Sequence[AssertLine]) -> list[list[str]]:
        raw = b"[" + b",".join(encode_line(line) for line in lines) + b"]"
        answer = self._client.request("POST", "/v1/control/find-known", raw=raw)
        found: list[list[str]] = answer["ids"]
        return found

    def find_episode(self, line: EpisodeLine) -> NamedByKey | None:
        answer = self._client.request(
            "POST", "/v1/control/find-episode", raw=msgspec.json.encode(line)
        )
        return msgspec.convert(answer["episode"], NamedByKey | None)


def result_of(item: dict[str, Any] | None) -> Result:
    if item is None:
        return None
    return msgspec.convert(item, RefusedLine if "message" in item else Written)


def open_conflict(node: Node, winner: str, loser: str) -> tuple[str, str]:
    """The open conflict between the values of two facts: its id, and the winning side. Raises
    LineError: one of the facts is unknown, or they do not contradict."""
    view, reader = node.reader.pin(), node.reader
    slots: list[int] = []
    for field, fact_id in (("winner", winner), ("loser", loser)):
        slot = view.slot_of(fact_id)
        if slot is None:
            raise LineError(f"no fact {fact_id!r}", field)
        slots.append(slot)
    rights = everything().past_tombstones()  # settled before a tombstone hid it
    found = conflict_between(reader, view, rights, node.moment(), winner, loser)
    if found is None:
        raise LineError("the two facts have no open conflict", "winner")
    same = view.value[found.newer] == view.value[slots[0]]
    side = found.newer if same else found.older
    if slots[0] in (found.newer, found.older):
        side = slots[0]
    row = reader.rows([int(view.from_position[side])])[0]
    return found.row.conflict_id, row.id
