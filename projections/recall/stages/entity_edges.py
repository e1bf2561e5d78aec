"""Edges and short paths between the entities in the question (abmind's S8).

The candidates are the facts behind the edges. Only edges that the caller may read at the Moment
make a word known, lead anywhere, or count.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import I32
from engramlog.projections.columns.names.entity_names import name_of, words_of
from engramlog.projections.graph.paths import Path, edges_of, paths_between
from engramlog.projections.normalization import normalize_uri
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled
from engramlog.projections.text.scripts import is_unspaced

WORDS_MAX = 64
"""Words of a question that are looked up."""
LETTERS_MAX = 8
"""The most letters of a name in a script without spaces; the least are two."""


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds and scores.

    Attributes:
        first_only: only the edges of the question's first known name.
        phrase_words: most words of a name.
        word_length: least characters of a one-word name.
        edges: most edges of one name.
        names: most names whose edges are used if no two of them have a path.
        edge_score: of an edge, also as a path of one hop.
        two_hop_score: of longer paths.
        one_hop, two_hops: most paths of each length between two names.
        paths: most paths in all.
    """

    first_only: bool = False
    phrase_words: Annotated[int, Meta(ge=1, le=5)] = 3
    word_length: Annotated[int, Meta(ge=1, le=100)] = 3
    edges: Annotated[int, Meta(ge=1, le=1000)] = 10
    names: Annotated[int, Meta(ge=1, le=10)] = 3
    edge_score: Annotated[float, Meta(gt=0, le=1)] = 0.6
    two_hop_score: Annotated[float, Meta(gt=0, le=1)] = 0.5
    one_hop: Annotated[int, Meta(ge=1, le=1000)] = 5
    two_hops: Annotated[int, Meta(ge=0, le=1000)] = 15
    paths: Annotated[int, Meta(ge=1, le=1000)] = 20


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """The edges on the paths between known names, or else the edges of the first known names.
    Raises StageDisabled: depth 0, or neighbours not wanted."""
    if survey.depth == 0:
        raise StageDisabled("depth is 0")
    if not survey.request.include_neighbors:
        raise StageDisabled("include_neighbors is false")
    found = _paths_or_edges(survey, parameters, named_entities(survey, parameters))
    paths: dict[int, list[Path]] = {}
    for path in found:
        for slot in path.edges:
            paths.setdefault(slot, []).append(path)
    slots: I32 = np.array(sorted(paths), dtype=np.int32)
    slots = slots[survey.survivor_mask[slots]]
    hops: I32 = np.array([min(p.hops for p in paths[n]) for n in slots.tolist()], dtype=np.int32)
    scores = np.where(hops > 1, parameters.two_hop_score, parameters.edge_score)

    def why(chosen: I32) -> list[list[str]]:
        return [
            [f"S8:entity-graph: {path.text(survey.view)}" for path in paths[slot]]
            for slot in chosen.tolist()
        ]

    ages = survey.view.ages
    return Candidates(slots, scores, hops, why, ages=ages, origin=lambda _slot: "entity-graph")


def _paths_or_edges(survey: Survey, parameters: Parameters, named: list[I32]) -> list[Path]:
    """Paths between the named entities; without any, edges of the entities."""
    if parameters.first_only:
        return _edges(survey, parameters, named[:1])
    two_hops = parameters.two_hops if survey.depth > 1 else 0
    paths: dict[Path, None] = {}
    for one, other in combinations(named, 2):
        between = paths_between(
            survey.view,
            one,
            other,
            survey.walkable,
            one_hop=parameters.one_hop,
            two_hops=two_hops,
        )
        paths.update(dict.fromkeys(between))
        if len(paths) >= parameters.paths:
            break
    if not paths:
        return _edges(survey, parameters, named[: parameters.names])
    return list(paths)[: parameters.paths]


def _edges(survey: Survey, parameters: Parameters, named: list[I32]) -> list[Path]:
    return [
        Path((slot,))
        for entities in named
        for slot in edges_of(survey.view, entities, survey.walkable)[: parameters.edges].tolist()
    ]


def named_entities(survey: Survey, parameters: Parameters) -> list[I32]:
    """For each name in the question with a visible edge, in order, its entities: by URI, by display
    name or by alias. At each word the longest name counts."""
    named: dict[bytes, I32] = {}
    for part in _parts(survey.request.query):
        for numbers in _entities_in(survey, parameters, part):
            named.setdefault(numbers.tobytes(), numbers)
    return list(named.values())


def _entities_in(survey: Survey, parameters: Parameters, part: str | list[str]) -> list[I32]:
    if isinstance(part, list):
        return list(_by_words(survey, parameters, part))
    numbers = _by_uri(survey, part)
    return [numbers] if len(numbers) else list(_by_words(survey, parameters, words_of(part)))


def _parts(query: str) -> Iterator[str | list[str]]:
    """Possible URIs, and the words between them."""
    words: list[str] = []
    for token in query.split()[:WORDS_MAX]:
        if ":" in token.strip("?!.,;:\"'()"):
            yield words
            yield token
            words = []
        else:
            words += words_of(token)
    yield words


def _by_uri(survey: Survey, token: str) -> I32:
    try:
        uri = normalize_uri(token.strip("?!.,;:\"'()"))
    except ValueError:
        return _with_visible_edge(survey, [])
    names = [uri]
    if survey.aliases is not None:
        names.append(survey.aliases.resolve(uri, survey.moment.position))
    numbers = [survey.view.entities.number(name) for name in names]
    return _with_visible_edge(survey, [number for number in numbers if number is not None])


def _by_words(survey: Survey, parameters: Parameters, words: list[str]) -> Iterator[I32]:
    start = 0
    while start < len(words):
        step = 1
        longest, shortest = parameters.phrase_words, 1
        if is_unspaced(words[start]):
            longest, shortest = LETTERS_MAX, 2
        for length in range(min(longest, len(words) - start), shortest - 1, -1):
            if length == 1 and len(words[start]) < parameters.word_length:
                continue
            numbers = _by_phrase(survey, " ".join(name_of(words[start : start + length])))
            if len(numbers):
                yield numbers
                step = length
                break
        start += step


def _by_phrase(survey: Survey, phrase: str) -> I32:
    view = survey.view
    numbers = view.entities_named(phrase)
    if survey.aliases is not None:
        meant = survey.aliases.named(phrase, survey.moment.position)
        numbers += [n for name in meant if (n := view.entities.number(name)) is not None]
    return _with_visible_edge(survey, numbers)


def _with_visible_edge(survey: Survey, numbers: list[int]) -> I32:
    """The entities with a visible edge."""
    known = [
        number
        for number in sorted(set(numbers))
        if len(edges_of(survey.view, np.array([number], dtype=np.int32), survey.walkable))
    ]
    return np.array(known, dtype=np.int32)
