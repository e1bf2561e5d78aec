"""Memories that repeat others in different words, recognised by the vectors of a provider on a real
socket.

A text's vector is the sum of its words', so reordered words have the cosine 1, and texts without a
common word one near 0.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from engramlog.eventlog.clock import FixedClock
from tests.worlds.live import LiveNode
from tests.worlds.provider_double import DIMENSIONS, words_vector
from tests.worlds.provider_servers import Scripted, Server, serving

PARAPHRASE = "paraphrase duplicate (skipped)"
SECOND_US = 1_000_000


def words_api(body: dict[str, Any]) -> Any:
    vectors = [words_vector(text).tolist() for text in body["input"]]
    return {"model": body["model"], "embeddings": vectors}


@pytest.fixture
def ollama() -> Iterator[Server]:
    with serving(words_api) as server:
        yield server


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(1_780_000_000_000_000)


@pytest.fixture
def live(tmp_path: Path, ollama: Server, clock: FixedClock) -> Iterator[LiveNode]:
    node = LiveNode(
        tmp_path / "data",
        clock=clock,
        embed_provider="ollama",
        embed_model="words",
        embed_dimensions=DIMENSIONS,
        embed_url=ollama.url,
    )
    node.node.embed(node.settings.embedding)
    yield node
    node.close()


def post(live: LiveNode, content: str, key: str | None = None, **fields: Any) -> dict[str, Any]:
    if key is None:
        fields.setdefault("user_id", "ann")
    body = {"content": content, "scope": "team", **fields}
    answer = live.call("POST", "/v1/memories", key=key, json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def test_the_same_in_other_words_counts_once_a_minute(live: LiveNode, clock: FixedClock) -> None:
    first = post(live, "Ann likes green tea")
    assert first["warnings"] == []
    assert post(live, "Bo keeps brown bees")["memoriesCount"] == 1
    again = post(live, "green tea Ann likes")
    assert (again["memoriesCount"], again["error"]) == (0, PARAPHRASE)
    assert (again["stored"], again["id"]) == (True, first["id"])
    assert post(live, "green tea Ann likes", user_id="bo")["memoriesCount"] == 1
    clock.advance(60 * SECOND_US + 1)
    assert post(live, "green tea Ann likes")["memoriesCount"] == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice owes Bob five euros", "Bob owes Alice five euros"),
        ("the train from Bern to Rome is late", "the train from Rome to Bern is late"),
        ("gate 3 opens at 7", "gate 7 opens at 3"),
    ],
)
def test_names_and_numbers_that_change_places_are_another_memory(
    live: LiveNode, one: str, other: str
) -> None:
    assert post(live, one)["memoriesCount"] == 1
    assert post(live, other)["memoriesCount"] == 1


def test_the_threshold_is_a_cosine(live: LiveNode) -> None:
    """It is near the share of words that two texts have in common."""
    text = "one two three four five six seven eight nine ten"
    eight = "one two three four five six seven eight"
    near, far = eight + " zebra", eight + " other words"
    assert 0.85 < float(words_vector(text) @ words_vector(near)) < 0.87
    assert 0.83 < float(words_vector(text) @ words_vector(far)) < 0.85
    post(live, text)
    assert post(live, near)["error"] == PARAPHRASE
    assert post(live, far)["memoriesCount"] == 1


@pytest.mark.parametrize(
    ("said", "corrected"),
    [
        ("Ann the baker from Graz likes green tea with milk", "no longer"),
        ("Ann the baker from Graz likes green tea with milk", "never"),
        ("Ann the baker from Graz doesn't like tea 12 with milk", "12"),
    ],
)
def test_a_correction_is_no_paraphrase_of_what_it_corrects(
    live: LiveNode, said: str, corrected: str
) -> None:
    """It says the opposite or another number, though nearly all words are the same."""
    text = f"{said} {corrected}"
    assert float(words_vector(said) @ words_vector(text)) > 0.86
    first = post(live, said, topic="tea")
    second = post(live, text, topic="tea")
    assert second["memoriesCount"] == 1
    assert second["superseded"] == ([first["id"]] if corrected == "no longer" else [])
    assert post(live, text.lower(), topic="tea")["error"] == PARAPHRASE


def test_of_paraphrases_stored_at_once_one_is_new(live: LiveNode) -> None:
    texts = [" ".join(words) for words in permutations(("ann", "likes", "tea"))]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda text: post(live, text), texts))
    assert sum(each["memoriesCount"] for each in answers) == 1
    assert len({each["id"] for each in answers}) == 1


def test_facts_from_other_routes_are_compared_too(live: LiveNode) -> None:
    stated = live.state(source="user:ann", scope="team", type="text", v="Ann likes green tea")
    again = post(live, "green tea Ann likes")
    assert (again["error"], again["id"]) == (PARAPHRASE, stated["id"])


def test_a_paraphrase_of_a_confidential_memory_is_as_confidential(
    live: LiveNode, clock: FixedClock
) -> None:
    owner = live.mint("read", "write", entity="user:owner", sources=["user:owner"])
    post(live, "the code is seven", owner, classification=2)
    clock.advance(3_600 * SECOND_US)
    said = post(live, "seven is the code", owner)
    assert (said["memoriesCount"], said["classification"]) == (1, 2)
    assert post(live, "bees make honey", owner)["classification"] == 1


def test_the_likest_of_many_confidential_memories_count(live: LiveNode, clock: FixedClock) -> None:
    owner = live.mint("read", "write", entity="user:owner", sources=["user:owner"])
    for n in range(70):
        post(live, f"alpha{n} beta{n} gamma{n}", owner, classification=2)
    post(live, "the code is seven", owner, classification=2)
    assert live.node.embeddings is not None
    while (status := live.node.embeddings.status()) is not None:
        if status.position >= live.node.log.head().position:
            break
        time.sleep(0.01)
    clock.advance(3_600 * SECOND_US)
    assert post(live, "seven is the code", owner)["classification"] == 2


def test_a_foreign_confidential_paraphrase_changes_nothing(live: LiveNode) -> None:
    owner = live.mint("read", "write", entity="user:owner", sources=["user:owner"])
    other = live.mint("read", "write", entity="user:other", sources=["user:owner", "user:other"])
    post(live, "the code is seven", owner, classification=2)
    for source in ("user:owner", "user:other"):
        said = post(live, "seven is the code", other, source=source)
        assert (said["memoriesCount"], said["classification"]) == (1, 1)
        assert (said["warnings"], said["superseded"]) == ([], [])


def test_without_the_provider_a_warning_names_the_skipped_rule(
    live: LiveNode, ollama: Server
) -> None:
    post(live, "Ann likes green tea")
    ollama.script.extend(Scripted(status=500) for _ in range(20))
    again = post(live, "green tea Ann likes")
    assert again["memoriesCount"] == 1
    assert again["warnings"][0].startswith("no embeddings: paraphrases were not compared (")


def test_an_erasure_leaves_no_vector_of_a_memory(live: LiveNode) -> None:
    stored = post(live, "Ann likes green tea")
    embeddings = live.node.embeddings
    assert embeddings is not None
    semantics = embeddings.semantics
    assert semantics is not None
    assert semantics.contents.vector("Ann likes green tea") is not None
    admin = live.mint("read", "write", "admin", entity="agent:admin")
    body = {"fact_ids": [stored["id"]], "reason": "request", "wait": True, "timeout_s": 10}
    answer = live.call("POST", "/v1/erasures", key=admin, json=body)
    assert answer.status_code == 202, answer.text
    assert semantics.contents.vector("Ann likes green tea") is None


def test_memories_in_a_script_that_the_model_does_not_know_are_no_paraphrases(
    tmp_path: Path,
) -> None:
    """To the bundled model all Thai texts are nearly alike."""
    live = LiveNode(tmp_path / "data", embed_provider="minilm")
    live.node.embed(live.settings.embedding)
    try:
        english = [
            post(live, "Ann is allergic to peanuts"),
            post(live, "Ann is allergic to peanut"),
        ]
        thai = [post(live, "แม่แพ้ถั่วลิสงและหอย"), post(live, "สุนัขกลัวเสียงฟ้าร้อง")]
    finally:
        live.close()
    assert [each["memoriesCount"] for each in english] == [1, 0]
    assert [each["memoriesCount"] for each in thai] == [1, 1]
    assert [each["warnings"] for each in thai] == [
        ["the embedding model does not know the script: paraphrases were not compared"]
    ] * 2
