"""The LoCoMo conversations in nodes of their own, as any client would write them.

One fact a turn, in order; the source is the session. Nothing of the questions is written.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, process_time, sleep

from msgspec import Struct

from api.node import Node
from eventlog.kinds import Value
from projections.authorization import everything
from projections.cid import compute_cid
from projections.embedding.settings import EmbeddingSettings
from projections.intents import AssertFact, Done
from projections.normalization import normalize_uri
from projections.recall import RecallAnswer, RecallRequest, recall
from projections.recall.profile import Profile

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "locomo"
EMBEDDING_SECONDS = 600.0
WRITES_TOGETHER = 200


class Question(Struct, frozen=True):
    """What is asked of one conversation, and the turns that hold the answer."""

    id: str
    text: str
    category: int
    evidence: frozenset[str]


class Turn(Struct, frozen=True):
    """``id``, what was said with the speaker first, the session, and its date."""

    id: str
    text: str
    ts: str
    session: str


class Conversation(Struct, frozen=True):
    """Turns in order, and the questions whose evidence is known."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


class Store(Struct, frozen=True):
    """A conversation in a node. ``answer`` recalls, ``turn_of`` names the turn of a fact."""

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


def conversations(folder: Path = DATA) -> list[Conversation]:
    """The conversations of the data set, by name."""
    evidence: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text().splitlines():
        question, turn, _ = line.split("\t")
        evidence[question].add(turn)
    turns: dict[str, list[Turn]] = defaultdict(list)
    for each in _lines(folder / "corpus.jsonl"):
        turns[each["space"]].append(Turn(each["id"], each["text"], each["ts"], each["session"]))
    questions: dict[str, list[Question]] = defaultdict(list)
    for each in _lines(folder / "queries.jsonl"):
        held = evidence[each["id"]] & {turn.id for turn in turns[each["space"]]}
        if held:
            made = Question(each["id"], each["text"], int(each["category"]), frozenset(held))
            questions[each["space"]].append(made)
    return [
        Conversation(name, tuple(turns[name]), tuple(questions[name])) for name in sorted(turns)
    ]


@contextmanager
def stored(
    folder: Path, chosen: Sequence[Conversation], embedding: EmbeddingSettings | None
) -> Generator[list[Store]]:
    """Each conversation in a new node under ``folder``, embedded to the last turn."""
    with ExitStack() as stack:
        stores: list[Store] = []
        for conversation in chosen:
            node = Node.open(folder / conversation.name, set_valued=["said"], embedding=embedding)
            stack.callback(node.close)
            stores.append(_write(node, conversation))
        yield stores


def _write(node: Node, conversation: Conversation) -> Store:
    intents = [intent_of_turn(conversation.name, turn) for turn in conversation.turns]
    turn_of: dict[str, str] = {}
    for first in range(0, len(intents), WRITES_TOGETHER):
        group = slice(first, first + WRITES_TOGETHER)
        done = node.write(*intents[group])
        for turn, outcome in zip(conversation.turns[group], done, strict=True):
            assert isinstance(outcome, Done)
            assert outcome.fact_id is not None
            turn_of[outcome.fact_id] = turn.id
    semantics = None
    if node.embeddings is not None:
        _wait(node, len(intents))
        semantics = node.embeddings.semantics
    view, moment = node.reader.mirror.pin(), node.moment()

    def answer(profile: Profile, request: RecallRequest) -> RecallAnswer:
        return recall(
            view, node.reader.rows, request, profile, everything(), moment, semantics=semantics,
            stopwatch=process_time,
        )  # fmt: skip

    return Store(conversation, answer, turn_of)


def wait_embedded(node: Node) -> None:
    """Until every fact that is to have a vector has it. Raises TimeoutError."""
    began = monotonic()
    while node.embeddings is not None and (status := node.embeddings.status()) is not None:
        if not status.lag and not status.waiting:
            return
        if monotonic() - began > EMBEDDING_SECONDS:
            raise TimeoutError(f"{status.waiting} facts have no vector: {status}")
        sleep(0.02)


def _wait(node: Node, facts: int) -> None:
    """Until every fact has its vector. Raises TimeoutError."""
    assert node.embeddings is not None
    began = monotonic()
    while (status := node.embeddings.status()) is not None and status.vectors < facts:
        if monotonic() - began > EMBEDDING_SECONDS:
            raise TimeoutError(f"{status.vectors} of {facts} facts embedded: {status}")
        sleep(0.05)


def intent_of_turn(space: str, turn: Turn) -> AssertFact:
    """The fact that a turn of a conversation is."""
    speaker = turn.text.partition(":")[0]
    entity = normalize_uri(f"stigmem://{space}.example/person/{speaker}")
    source = normalize_uri(f"stigmem://{space}.example/session/{turn.session}")
    value = Value("text", turn.text)
    date = datetime.strptime(turn.ts, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    return AssertFact(
        entity=entity, relation="said", value=value, source=source, scope="local",
        valid_from=date.strftime("%Y-%m-%dT%H:%M:%SZ"),
        cid=compute_cid(
            entity=entity, relation="said", value=value, source=source, confidence=1.0,
            scope="local",
        ),
    )  # fmt: skip


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


__all__ = [
    "DATA", "Conversation", "Question", "Store", "Turn", "conversations", "intent_of_turn",
    "stored", "wait_embedded",
]  # fmt: skip
