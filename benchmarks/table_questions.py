"""Questions about tables of facts, made from their rows: space flight, Congress, ICEWS; and about
a past time of the first two, whose rows have ends.

Each question is a sentence about a relation, in other words than the relation's, with the name of
an entity. Its evidence are the rows that have the entity and the relation. The entities of Congress
are numbers; other rows hold their names.
"""

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.question_sets import FOLDER, Conversation, Question, QuestionSet, Row
from engramlog.eventlog.kinds import Value

FLIGHTS = Path(__file__).resolve().parents[1] / "fixtures" / "spaceflight" / "events.jsonl"
EVIDENCE_MAX = 8
"""Questions with more answers are left out: ten facts are counted."""
ASKED_MAX = 14
"""Questions about a relation."""
LEGISLATORS = 420
EVENTS_FIRST, EVENTS = 20_000, 6_000
FIRST_DAY = datetime(2014, 1, 1, tzinfo=UTC)

Asked = Mapping[str, str]
"""A question about each relation; {} stands for the entity's name."""

FLIGHT_OF: Asked = {
    "space:flew-on": "On which missions was {} aboard?",
    "space:commanded-by": "Who was in charge of {}?",
    "space:visited": "Where has {} been?",
    "space:launched-on": "What rocket carried {}?",
    "space:launched-at": "When did {} lift off?",
    "space:held-by": "Who has the record for {}?",
    "space:record-value": "What is the current best for {}?",
    "space:part-of": "Which programme did {} belong to?",
    "space:moon-count": "How many moons does {} have?",
    "space:led-by": "Who was the head of {}?",
    "space:launched-from": "Where did {} take off?",
    "space:operated-by": "Which agency ran {}?",
    "space:returned-at": "When did {} come back to Earth?",
    "space:built-by": "Who made {}?",
    "space:orbits": "What does {} go around?",
    "space:discovered-by": "Who found {}?",
    "space:discovered-on": "When was {} found?",
    "space:died-on": "When did {} die?",
    "space:used-spacecraft": "Which shuttle flew as {}?",
    "space:status": "Is {} still active?",
    "space:succeeded-by": "What replaced {}?",
    "space:classification": "What kind of object is {}?",
    "space:named-after": "Whom is {} named for?",
    "space:first-flight-on": "When did {} first fly?",
    "space:failure-cause": "Why did {} fail?",
    "space:located-at": "Where can you see {} today?",
    "space:founded-on": "When was {} established?",
    "space:carried": "What did {} take along?",
    "space:diameter-km": "How large is {}?",
    "space:samples-returned-kg": "How much rock did {} bring back?",
    "space:landed-at": "Where did {} touch down?",
    "space:fate": "What happened to {}?",
    "space:summary": "What happened on {}?",
    "space:planned-launch": "When should {} fly?",
}
FLIGHT_TO: Asked = {
    "space:flew-on": "Who was aboard {}?",
    "space:commanded-by": "What did {} lead?",
    "space:visited": "Which probes went to {}?",
    "space:held-by": "Which records does {} have?",
    "space:led-by": "Which agency did {} run?",
    "space:operated-by": "Which spacecraft does {} run?",
    "space:built-by": "What does {} make?",
    "space:orbits": "What are the moons of {}?",
    "space:discovered-by": "What did {} find?",
}
"""Of rows that point at the entity."""
CONGRESS_OF: Asked = {
    "congress:party": "Which party does {} belong to?",
    "congress:phone": "What number do I call to reach {}?",
    "congress:birthday": "When was {} born?",
    "congress:url": "Where is {}'s website?",
    "congress:religion": "What faith does {} follow?",
    "congress:office": "Where in Washington does {} work?",
    "congress:address": "Where do I send a letter to {}?",
    "congress:member_of": "On which committees does {} sit?",
    "congress:holds_office": "Which seat does {} have?",
    "congress:gender": "Is {} a man or a woman?",
    "congress:social_twitter": "What is the Twitter handle of {}?",
    "congress:fax": "Where can I fax {}?",
}
FLIGHT_THEN: Asked = {
    "space:commanded-by": "Who was in charge of {} in {}?",
    "space:led-by": "Who was the head of {} in {}?",
    "space:moon-count": "How many moons of {} were known in {}?",
    "space:held-by": "Who had the record for {} in {}?",
    "space:record-value": "What was the best for {} in {}?",
    "space:status": "Was {} still active in {}?",
    "space:classification": "What kind of object was {} in {}?",
}
"""About a month: the second {} stands for it."""
CONGRESS_THEN: Asked = {"congress:holds_office": "Which seat did {} have in {}?"}
ICEWS_OF: Asked = {
    "Make statement": "What did {} say?",
    "Consult": "Whom did {} talk to?",
    "Arrest, detain, or charge with legal action": "Whom did {} put in jail?",
    "Make a visit": "Where did {} travel to?",
    "Host a visit": "Who came to see {}?",
    "Criticize or denounce": "Whom did {} blame?",
    "Threaten": "Whom did {} menace?",
    "Praise or endorse": "Whom did {} speak well of?",
    "Provide aid": "Whom did {} help?",
    "Sign formal agreement": "With whom did {} conclude a treaty?",
    "Use conventional military force": "Whom did {} attack with troops?",
    "Express intent to cooperate": "With whom does {} want to work?",
    "Demonstrate or rally": "Against whom did {} protest?",
    "Make an appeal or request": "Whom did {} ask for something?",
    "Engage in negotiation": "With whom did {} bargain?",
    "Investigate": "Whom did {} look into?",
    "Reject": "Whom did {} turn down?",
    "Discuss by telephone": "Whom did {} phone?",
    "Use unconventional violence": "Whom did {} terrorise?",
    "Return, release person(s)": "Whom did {} set free?",
}


def space_flight() -> Conversation:
    """The demo's assertions, each value once."""
    rows: list[Row] = []
    names: dict[str, str] = {}
    seen: set[tuple[str, ...]] = set()
    for line in FLIGHTS.read_text().splitlines():
        event = json.loads(line)
        if event["op"] != "assert":
            continue
        value = _value(event["value"]["type"], event["value"]["v"])
        key = (event["entity"], event["relation"], value.type, value.v)
        if key not in seen:
            seen.add(key)
            row = Row(str(len(rows)), *key[:2], value, event["source"], event.get("valid_from"))
            rows.append(row)
            if row.relation == "space:name":
                names.setdefault(row.entity, value.v)
    about = _asked(rows, ((row.entity, row.relation) for row in rows), names, FLIGHT_OF, "about")
    targets = ((row.value.v if row.value.type == "ref" else "", row.relation) for row in rows)
    leading = _asked(rows, targets, names, FLIGHT_TO, "points at")
    return Conversation("space-flight", (), (*about, *leading), rows=tuple(rows))


def congress() -> Conversation:
    """Some legislators, by number."""
    rows: list[Row] = []
    names: dict[str, str] = {}
    kept = {*CONGRESS_OF, "congress:name"}
    stated = dict.fromkeys(
        (event["s"], f"congress:{event['r']}", event["o"])
        for event in _lines(FOLDER / "congress" / "events.jsonl.gz")
        if event["op"] == "assert"
        and f"congress:{event['r']}" in kept
        and not (event["r"] == "holds_office" and (event["vf"] or "") < "2009")
    )
    people = sorted({subject for subject, _, _ in stated})
    chosen = set(random.Random(5).sample(people, LEGISLATORS))
    for subject, relation, text in stated:
        if subject in chosen:
            entity = f"stigmem://congress.example/{subject.lower()}"
            rows.append(Row(str(len(rows)), entity, relation, Value("string", text), "agent:list"))
            if relation == "congress:name":
                names.setdefault(entity, text)
    keys = ((row.entity, row.relation) for row in rows)
    asked = _asked(rows, keys, names, CONGRESS_OF, "about")
    return Conversation("congress", (), asked, rows=tuple(rows))


def icews() -> Conversation:
    """Events of about a month, as sentences; who acts stands before the relation."""
    rows: list[Row] = []
    keys: list[tuple[str, str]] = []
    relations = sorted(ICEWS_OF, key=len, reverse=True)
    events = list(_lines(FOLDER / "icews14" / "facts.jsonl.gz"))
    for event in events[EVENTS_FIRST : EVENTS_FIRST + EVENTS]:
        text, day = event["text"], FIRST_DAY + timedelta(days=event["from"])
        held = next((each for each in relations if f" {each} " in text), "")
        keys.append((text.partition(f" {held} ")[0] if held else "", held))
        entity = f"stigmem://icews.example/actor/{event['s']}"
        rows.append(
            Row(event["id"], entity, "icews:event", Value("text", text), "agent:icews",
                day.strftime("%Y-%m-%dT%H:%M:%SZ"))
        )  # fmt: skip
    names = {name: name for name, _ in keys if name}
    asked = _asked(rows, keys, names, ICEWS_OF, "about")
    return Conversation("icews", (), asked, rows=tuple(rows))


def space_flight_then() -> Conversation:
    """The demo's assertions that were not retracted, with their ends."""
    stated: dict[str, dict[str, Any]] = {}
    for line in FLIGHTS.read_text().splitlines():
        event = json.loads(line)
        if event["op"] == "assert":
            stated[event["key"]] = event
        elif event["op"] == "retract":
            stated.pop(event["target"], None)
    rows = tuple(
        Row(str(number), event["entity"], event["relation"],
            _value(event["value"]["type"], event["value"]["v"]), event["source"],
            event.get("valid_from"), event.get("valid_until"))
        for number, event in enumerate(stated.values())
    )  # fmt: skip
    names = {row.entity: row.value.v for row in rows if row.relation == "space:name"}
    return Conversation("space-flight-then", (), _asked_then(rows, names, FLIGHT_THEN), rows=rows)


def congress_then() -> Conversation:
    """Names and seats of some legislators, with their ends."""
    stated = dict.fromkeys(
        (event["s"], f"congress:{event['r']}", event["o"], event["vf"], event["vt"])
        for event in _lines(FOLDER / "congress" / "events.jsonl.gz")
        if event["op"] == "assert" and event["r"] in ("holds_office", "name")
    )
    people = sorted({subject for subject, *_ in stated})
    chosen = set(random.Random(5).sample(people, LEGISLATORS))
    rows = tuple(
        Row(str(number), f"stigmem://congress.example/{subject.lower()}", relation,
            Value("string", text), "agent:list", _midnight(begun), _midnight(ended))
        for number, (subject, relation, text, begun, ended) in enumerate(stated)
        if subject in chosen
    )  # fmt: skip
    names = {row.entity: row.value.v for row in rows if row.relation == "congress:name"}
    return Conversation("congress-then", (), _asked_then(rows, names, CONGRESS_THEN), rows=rows)


TABLES = (
    QuestionSet("Space flight", "table", FLIGHTS, made=space_flight),
    QuestionSet("Congress", "table", FOLDER / "congress", made=congress),
    QuestionSet("ICEWS", "table", FOLDER / "icews14", made=icews),
    QuestionSet("Space flight, then", "table", FLIGHTS, made=space_flight_then),
    QuestionSet("Congress, then", "table", FOLDER / "congress", made=congress_then),
)


def _asked(
    rows: Iterable[Row],
    keys: Iterable[tuple[str, str]],
    names: Mapping[str, str],
    asked: Asked,
    category: str,
) -> tuple[Question, ...]:
    """Questions about (entity, relation); ``keys`` gives each row's."""
    evidence: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row, key in zip(rows, keys, strict=True):
        evidence[key].add(row.id)
    chance = random.Random(1)
    made: list[Question] = []
    for relation, words in asked.items():
        about = [
            entity
            for entity, its in evidence
            if its == relation and entity in names and len(evidence[entity, its]) <= EVIDENCE_MAX
        ]
        for entity in chance.sample(about, min(ASKED_MAX, len(about))):
            held = frozenset(evidence[entity, relation])
            text = words.format(names[entity])
            made.append(Question(f"{category} {relation} {entity}", text, category, held))
    return tuple(made)


def _asked_then(
    rows: Iterable[Row], names: Mapping[str, str], asked: Asked
) -> tuple[Question, ...]:
    """Questions about the month in the middle of a row that has ended. Their evidence are all rows
    of its (entity, relation) that held in that month."""
    by_key: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row.entity, row.relation].append(row)
    chance = random.Random(1)
    made: list[Question] = []
    for relation, words in asked.items():
        ended = [
            row
            for (entity, its), group in by_key.items()
            for row in group
            if its == relation and entity in names and row.valid_from and row.valid_until
        ]
        for row in chance.sample(ended, min(4 * ASKED_MAX, len(ended))):
            first = _middle(row).replace(day=1)
            after = (first + timedelta(31)).replace(day=1)
            group = by_key[row.entity, relation]
            held = frozenset(each.id for each in group if _held(each, first, after))
            text = words.format(names[row.entity], f"{first:%B %Y}")
            made.append(Question(f"then {relation} {row.id}", text, "then", held))
    return tuple(made)


def _middle(row: Row) -> date:
    """The day in the middle of a row's validity."""
    first, after = _day(row.valid_from), _day(row.valid_until)
    return first + (after - first) / 2


def _held(row: Row, first: date, after: date) -> bool:
    """Whether a row was valid on some day from ``first`` to before ``after``."""
    return (row.valid_from is None or _day(row.valid_from) < after) and (
        row.valid_until is None or _day(row.valid_until) > first
    )


def _day(instant: str | None) -> date:
    return date.fromisoformat((instant or "")[:10])


def _midnight(day: str | None) -> str | None:
    return None if day is None else f"{day}T00:00:00Z"


def _value(kind: Any, v: object) -> Value:
    """A value as the log holds it."""
    if kind == "number":
        return Value(kind, repr(float(str(v))))
    return Value(kind, json.dumps(v) if isinstance(v, bool) else str(v))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)
