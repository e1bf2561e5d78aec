"""Facts about what the question names: 1 for each that is about such an entity or points at one.

"When was Jimmy Gomez born?" is answered by a fact of ``legislator/g000585``, which another of its
facts calls Jimmy Gomez. So an entity is named by its URI, its display name, a short value that
few entities have, or a word of such a value that is a name. A fact that so names it says little
new and counts a quarter, unless the question asks for nothing else: "Who is the CFO?". What it says
in a conversation is rarely about it and does not count. But what is said with its name in
conversations, by it or by others, counts unless it is much.

A code (see ``codes``) says which fact is meant, without an entity: 2 for each of the few facts that
hold it as written, unless it is part of a name of what the question names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import I32
from engramlog.projections.ascending import among, distinct
from engramlog.projections.columns.names.entity_names import (
    name_of,
    names_something,
    phrases_in,
    words_of,
)
from engramlog.projections.image.view import View
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.conversations import conversations
from engramlog.projections.recall.conversation.speakers import are_said, capitalised_words
from engramlog.projections.recall.conversation.subject_names import (
    HOLDERS_MAX,
    PUNCTUATION_MAX,
    WORDS_MAX,
    named_in_part,
    subject_names,
)
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled
from engramlog.projections.recall.stages.graph import named_entities, newest_facts
from engramlog.projections.text.codes import codes_in
from engramlog.projections.text.stop_words import STOP_WORDS

LEADING = 50
"""How many of each stage's best hits are looked at for values that name their entity."""
SAID_WITH_NAME_MAX = 20
"""Where more is said with a name, it tells little of each."""
LOOKED_AT_FIRST = 64
"""Facts that hold a name and are looked at before all of them: they mostly show that it is much."""
NAMING = 0.25
"""The score of a fact whose value the question gives, and asks for more."""
NAME_CHARS_MAX = 200
CODE_HOLDERS_MAX = 5
"""How many facts may hold a code that says which fact is meant."""
CODE_TERMS_MAX = 16
"""How many terms of a code are looked up, the last ones: those of a path tell most."""
CODE_LOOKED_AT_MAX = 64
"""Of how many facts that hold a code's words the texts are read."""
_NONE: I32 = np.empty(0, dtype=np.int32)


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``holders_max``: how many entities may have the value by which a question names them."""

    holders_max: Annotated[int, Meta(ge=0, le=100)] = HOLDERS_MAX


def run(survey: Survey, parameters: Parameters, earlier: Mapping[str, Candidates]) -> Candidates:
    """Facts of the named entities, ascending by slot. Raises StageDisabled: the question names no
    entity with such facts."""
    view = survey.view
    spelled_out = _spelled_out(survey, parameters.holders_max, earlier)
    spelled_out |= _in_part(survey, parameters.holders_max, spelled_out)
    of_values = [view.entity[slots] for slots in spelled_out.values()]
    named = distinct(np.concatenate([named_entities(survey, earlier), *of_values]))
    hits = [each.slots for each in earlier.values()]
    about = [slots[among(view.entity[slots], named)] for slots in hits]
    about = distinct(np.concatenate([*about, newest_facts(survey, named, view.entity_lists)]))
    about = about[~are_said(survey, named, about)]
    naming = _saying_nothing_new(survey.request.query, spelled_out)
    leading = [slots[among(view.object[slots], named)] for slots in hits]
    leading = distinct(np.concatenate([*leading, newest_facts(survey, named, view.object_lists)]))
    names = [*map(view.entities.text, named.tolist()), *spelled_out]
    copied = _holding_codes(survey, names)
    coded = distinct(np.concatenate([_NONE, *copied.values()]))
    with_names = _said_with_names(survey, about)
    said = distinct(np.concatenate([_NONE, *with_names.values()]))
    marked = {f"with the name {name}": slots for name, slots in with_names.items()}
    marked |= {f"holds {code}": slots for code, slots in copied.items()}
    slots = distinct(np.concatenate([about, leading, said, coded]))
    if not len(slots):
        raise StageDisabled("the question names no entity with facts beyond what it says")

    def why(chosen: I32) -> list[list[str]]:
        text = view.entities.text
        found = [
            [f"subject: points at {text(int(view.object[slot]))}"]
            if points
            else [f"subject: about {text(int(view.entity[slot]))}"]
            for slot, points in zip(chosen.tolist(), among(chosen, leading).tolist(), strict=True)
        ]
        for mark, marked_slots in marked.items():
            for at in np.flatnonzero(among(chosen, marked_slots)).tolist():
                found[at] = [f"subject: {mark}"]
        return found

    scores, hops = np.ones(len(slots)), np.zeros(len(slots), dtype=np.int32)
    scores[among(slots, naming)] = NAMING
    scores[among(slots, coded)] = 2.0
    return Candidates(slots, scores, hops, why, ages=view.ages, builds_on=True)


def _saying_nothing_new(query: str, spelled_out: Mapping[str, I32]) -> I32:
    """The facts whose value, or a word of it, is in a question that says more than this."""
    asked = set(words_of(query)) - STOP_WORDS
    found = [slots for value, slots in spelled_out.items() if not asked.issubset(value.split())]
    return distinct(np.concatenate([_NONE, *found]))


def _said_with_names(survey: Survey, about: I32) -> dict[str, I32]:
    """By name of the question, what is said in conversations with it as the speaker's or in the
    text, besides the facts about it, if that is little."""
    view, context, found = survey.view, survey.context, dict[str, I32]()
    if context is None:
        return found
    for name in subject_names(survey):
        held = survey.holding(view.tokenize(name))
        held = held[(view.object[held] < 0) & ~among(held, about)]
        said = _in_conversations(survey, context, held[:LOOKED_AT_FIRST])
        if len(held) > LOOKED_AT_FIRST and len(said) <= SAID_WITH_NAME_MAX:
            said = _in_conversations(survey, context, held)
        if 0 < len(said) <= SAID_WITH_NAME_MAX:
            found[name] = said
    return found


def _in_conversations(survey: Survey, context: ConversationContext, slots: I32) -> I32:
    return slots[conversations(survey, context, slots).of(slots) >= 0]


def _holding_codes(survey: Survey, names: Sequence[str]) -> dict[str, I32]:
    """By code of the question that is in none of the names, the facts that hold it, if they are
    few."""
    view, found = survey.view, dict[str, I32]()
    named = [set(words_of(name)) for name in names]
    for code in codes_in(survey.request.query):
        words = words_of(code)
        if any(name.issuperset(words) for name in named):
            continue
        held = survey.holding(list(dict.fromkeys(view.tokenize(code)))[-CODE_TERMS_MAX:])
        if len(held) > CODE_LOOKED_AT_MAX:
            continue
        whole = re.compile(rf"(?<![^\W_]){re.escape(code)}(?![^\W_])", re.IGNORECASE)
        kept = np.array([bool(whole.search(_text(view, slot))) for slot in held.tolist()], np.bool_)
        if 0 < np.count_nonzero(kept) <= CODE_HOLDERS_MAX:
            found[code] = held[kept]
    return found


def _text(view: View, slot: int) -> str:
    relation = view.relations.text(int(view.relation[slot]))
    return f"{view.entities.text(int(view.entity[slot]))} {relation} {view.value_text_of(slot)}"


def _spelled_out(
    survey: Survey, holders_max: int, earlier: Mapping[str, Candidates]
) -> dict[str, I32]:
    """The best hits whose value is in the question, word for word, by value: those values that few
    of the hits' entities have."""
    view = survey.view
    judged = [hits.best(LEADING).slots for hits in earlier.values() if not hits.builds_on]
    asked = phrases_in(survey.request.query)
    chars_max = min(len(asked) + PUNCTUATION_MAX, NAME_CHARS_MAX)
    holders: dict[str, list[int]] = {}
    slots = distinct(np.concatenate([_NONE, *judged]))
    slots = slots[view.object[slots] < 0]
    counts, _ = view.spoken.words(view.value[slots])
    for slot in slots[counts <= WORDS_MAX].tolist():
        text = view.value_text_of(slot)
        if len(text) > chars_max:
            continue
        words = name_of(words_of(text))
        value = " ".join(words)
        if names_something(words) and f" {value} " in asked:
            holders.setdefault(value, []).append(slot)
    found = {value: np.array(slots, dtype=np.int32) for value, slots in holders.items()}
    return {
        value: slots
        for value, slots in found.items()
        if len(distinct(view.entity[slots])) <= holders_max
    }


def _in_part(survey: Survey, holders_max: int, spelled_out: Mapping[str, I32]) -> dict[str, I32]:
    """By word of the question that stands for a name and is in none that is spelled out, the facts
    whose value is that name."""
    whole = {word for value in spelled_out for word in value.split()}
    found = {
        word.casefold(): named_in_part(survey, word)
        for word in capitalised_words(survey.request.query)
        if whole.isdisjoint(words_of(word))
    }
    return {
        word: slots
        for word, slots in found.items()
        if len(slots) and len(distinct(survey.view.entity[slots])) <= holders_max
    }
