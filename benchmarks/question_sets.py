"""Conversations, passages and tables with questions, each in a separate node, written as a client
would.

One fact per turn, in order; the speaker is the entity and the session the source, or in a channel
the other way round, and the text does not name the speaker. A passage is a fact with its own entity
and source. Nothing of the questions is written.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, process_time, sleep
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.projections.authorization import everything
from engramlog.projections.cid import with_cid
from engramlog.projections.embedding.service import CACHE_FILE
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.normalization import normalize_uri
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import Profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.writing.commands import AssertFact, Done

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = FOLDER / "locomo"
EMBEDDING_SECONDS = 3600.0
WRITES_TOGETHER = 200
UNKNOWN_MIN = 4
"""Questions to the rest of the conversation that an excerpt gets, at least."""
SET_VALUED = ["said", "space:*", "desk:*", "congress:*", "icews:*"]
TIMES = ("%I:%M %p on %d %B, %Y", "%d.%m.%Y, %H:%M:%S", "%B-%d-%Y")


class QuestionSet(Struct, frozen=True):
    """Questions of one kind, from a file or folder. ``cut``: how many facts of an answer count.
    ``prefix``: of its conversations' names in the folder. ``unanswerable``: the category of
    questions without an answer in the memory. ``made``: makes the questions of a table."""

    name: str
    kind: str
    path: Path
    cut: int = 10
    prefix: str = ""
    unanswerable: str = ""
    made: Callable[[], Conversation] | None = None

    def conversations(self) -> list[Conversation]:
        """The set's conversations, or its table."""
        if self.made is not None:
            return [self.made()]
        return conversations(self.path, self.prefix, self.unanswerable)


BEAM = FOLDER / "beam"
SETS = (
    QuestionSet("LoCoMo", "people", DATA, unanswerable="5"),
    QuestionSet("REALTALK", "people", FOLDER / "realtalk"),
    QuestionSet("BEAM 100K", "assistant", BEAM, prefix="beam-100K", unanswerable="abstention"),
    QuestionSet("BEAM 500K", "assistant", BEAM, prefix="beam-500K", unanswerable="abstention"),
    QuestionSet("MuSiQue", "passages", FOLDER / "passages", cut=5),
)


class Question(Struct, frozen=True):
    """A question about one conversation, and the turns with the answer; none if the conversation
    lacks it."""

    id: str
    text: str
    category: str
    evidence: frozenset[str]


class Turn(Struct, frozen=True):
    """``id``, the words with the speaker first, the session, and its date. A passage has neither
    session nor date."""

    id: str
    text: str
    ts: str | None
    session: str | None


class Row(Struct, frozen=True):
    """A fact of a table."""

    id: str
    entity: str
    relation: str
    value: Value
    source: str
    valid_from: str | None = None
    valid_until: str | None = None


class Conversation(Struct, frozen=True):
    """Turns in order, the questions with known evidence, and those without any. A table has rows
    instead of turns. ``channels``: its sessions are stored as channels."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    unanswerable: tuple[Question, ...] = ()
    rows: tuple[Row, ...] = ()
    channels: bool = False


class Store(Struct, frozen=True):
    """A conversation in a node. ``answer`` recalls, ``turn_of`` gives the turn of a fact."""

    conversation: Conversation
    answer: Callable[[Profile, RecallRequest], RecallAnswer]
    turn_of: dict[str, str]

    def ask(self, profile: Profile, text: str, token_budget: int) -> list[str]:
        """The ids of the turns recalled within a budget, best first."""
        return self.turns(
            self.answer(profile, RecallRequest(query=text, token_budget=token_budget))
        )

    def turns(self, answer: RecallAnswer) -> list[str]:
        """The ids of the turns of an answer."""
        return [self.turn_of[each.row.id] for each in answer.results]


def conversations(
    folder: Path = DATA, prefix: str = "", unanswerable: str = ""
) -> list[Conversation]:
    """The conversations of a data set, by name."""
    evidence: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text().splitlines():
        question, turn, _ = line.split("\t")
        evidence[question].add(turn)
    turns: dict[str, list[Turn]] = defaultdict(list)
    for each in _lines(folder / "corpus.jsonl"):
        if each["space"].startswith(prefix):
            turns[each["space"]].append(Turn(each["id"], each["text"], each["ts"], each["session"]))
    known = {space: {turn.id for turn in said} for space, said in turns.items()}
    asked: dict[str, list[Question]] = defaultdict(list)
    for each in _lines(folder / "queries.jsonl"):
        if each["space"] in known:
            held = frozenset(evidence[each["id"]] & known[each["space"]])
            made = Question(each["id"], each["text"], str(each["category"]), held)
            asked[each["space"]].append(made)
    return [
        Conversation(
            name,
            tuple(turns[name]),
            tuple(each for each in asked[name] if each.evidence),
            tuple(each for each in asked[name] if each.category == unanswerable),
        )
        for name in sorted(turns)
    ]


def excerpts(conversation: Conversation, turns: int, count: int) -> list[Conversation]:
    """Excerpts as memories of their own. Questions to the rest have no answer there."""
    chance = random.Random(f"{conversation.name} {turns}")
    made: list[Conversation] = []
    for _ in range(count):
        first = chance.randrange(max(1, len(conversation.turns) - turns))
        part = conversation.turns[first : first + turns]
        held = {turn.id for turn in part}
        asked = [
            msgspec.structs.replace(each, evidence=each.evidence & held)
            for each in conversation.questions
        ]
        known = tuple(each for each in asked if each.evidence)
        unknown = [each for each in asked if not each.evidence]
        unknown = chance.sample(unknown, min(len(unknown), max(UNKNOWN_MIN, len(known))))
        made.append(Conversation(conversation.name, part, known, tuple(unknown)))
    return made


@contextmanager
def stored(
    folder: Path,
    chosen: Sequence[Conversation],
    embedding: EmbeddingSettings | None,
    vectors: Path | None = None,
) -> Generator[list[Store]]:
    """Each conversation in a new node under ``folder``, embedded to the last turn. ``vectors``:
    keeps the vectors of each for the next run."""
    with ExitStack() as stack:
        stores: list[Store] = []
        for conversation in chosen:
            path = folder / conversation.name
            kept = None if vectors is None else vectors / f"{conversation.name}.db"
            if kept is not None and kept.exists():
                path.mkdir()
                shutil.copy(kept, path / CACHE_FILE)
            node = Node.open(path, set_valued=SET_VALUED, embedding=embedding)
            stack.callback(node.close)
            stores.append(_write(node, conversation))
            if kept is not None and not kept.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                with closing(apsw.Connection(str(path / CACHE_FILE))) as cache:
                    cache.execute("VACUUM INTO ?", (str(kept),))
        yield stores


def _write(node: Node, conversation: Conversation) -> Store:
    name, channels = conversation.name, conversation.channels
    stated = [(turn.id, intent_of_turn(name, turn, channels)) for turn in conversation.turns]
    stated += [(row.id, intent_of_row(row)) for row in conversation.rows]
    turn_of: dict[str, str] = {}
    for first in range(0, len(stated), WRITES_TOGETHER):
        group = stated[first : first + WRITES_TOGETHER]
        done = node.write(*(intent for _, intent in group))
        for (turn, _), outcome in zip(group, done, strict=True):
            assert isinstance(outcome, Done)
            assert outcome.fact_id is not None
            turn_of[outcome.fact_id] = turn
    semantics = None
    if node.embeddings is not None:
        wait_embedded(node)
        semantics = node.embeddings.semantics
    view, moment = node.reader.pin(), node.moment()

    def answer(profile: Profile, request: RecallRequest) -> RecallAnswer:
        return recall(
            view, node.reader.rows, request, profile, everything(), moment, semantics=semantics,
            stopwatch=process_time,
        )  # fmt: skip

    return Store(conversation, answer, turn_of)


def wait_embedded(node: Node) -> None:
    """Wait until every fact that needs a vector has it. Raises TimeoutError."""
    began = monotonic()
    while node.embeddings is not None and (status := node.embeddings.status()) is not None:
        if not status.lag and not status.waiting:
            return
        if monotonic() - began > EMBEDDING_SECONDS:
            raise TimeoutError(f"{status.waiting} facts have no vector: {status}")
        sleep(0.02)


def intent_of_turn(space: str, turn: Turn, channel: bool = False) -> AssertFact:
    """The fact for a turn of a conversation, or for a passage."""
    host = space.replace("_", "-").lower()
    speaker, _, words = turn.text.partition(":")
    said = turn.session is not None
    entity = f"person/{speaker.strip().replace(' ', '-')}" if said else f"doc/{turn.id}"
    source = f"session/{turn.session}" if said else entity
    if channel:
        entity, source = source, entity
    entity = normalize_uri(f"stigmem://{host}.example/{entity}")
    source = normalize_uri(f"stigmem://{host}.example/{source}")
    relation = "said" if said else "text"
    value = Value("text", words.strip() if channel else turn.text)
    began = None if turn.ts is None else _date(turn.ts).strftime("%Y-%m-%dT%H:%M:%SZ")
    fact = FactAsserted(entity, relation, value, source, "local", valid_from=began)
    return AssertFact(with_cid(fact))


def intent_of_row(row: Row) -> AssertFact:
    """The fact for a row of a table."""
    fact = FactAsserted(
        row.entity, row.relation, row.value, row.source, "local",
        valid_from=row.valid_from, valid_until=row.valid_until,
    )  # fmt: skip
    return AssertFact(with_cid(fact))


def _date(text: str) -> datetime:
    for form in TIMES:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC)
    raise ValueError(f"no date: {text}")


def _lines(path: Path) -> list[dict[str, Any]]:
    zipped = path.with_name(f"{path.name}.gz")
    text = gzip.decompress(zipped.read_bytes()).decode() if zipped.exists() else path.read_text()
    return [json.loads(line) for line in text.splitlines()]


__all__ = [
    "DATA", "SETS", "Conversation", "Question", "QuestionSet", "Store", "Turn", "conversations",
    "excerpts", "intent_of_turn", "stored", "wait_embedded",
]  # fmt: skip
