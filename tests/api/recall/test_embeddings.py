"""Embeddings as a user of the node meets them, with providers on real sockets."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from engramlog.projections.embedding.errors import DimensionMismatch
from engramlog.projections.embedding.following import FollowedEmbeddings
from engramlog.projections.embedding.recipe import Space, vectors_file
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.embedding.vectors.loading import load_vectors
from engramlog.projections.embedding.vectors.vec_facts import KeptVecFacts
from tests.worlds.histories import asserted
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.provider_double import DIMENSIONS
from tests.worlds.provider_servers import Scripted, Server, serving
from tests.worlds.waiting import SECONDS_MAX, until
from tests.worlds.word_vectors import OTHER_DIMENSIONS, settings_for, words_api


@pytest.fixture
def ollama() -> Iterator[Server]:
    with serving(words_api) as server:
        yield server


@pytest.fixture
def live(tmp_path: Path, ollama: Server) -> Iterator[LiveNode]:
    node = LiveNode(tmp_path / "data", **settings_for(ollama))
    node.node.embed(node.settings.embedding)
    try:
        yield node
    finally:
        ollama.script.clear()
        node.close()


def say(live: LiveNode, text: str, **query: str) -> dict[str, Any]:
    answer = live.call(
        "POST",
        "/v1/facts",
        params=query,
        json={
            "entity": "user:ann",
            "relation": "rel:note",
            "value": {"type": "text", "v": text},
            "source": "agent:a",
            "scope": "local",
        },
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


def admin(live: LiveNode, method: str, path: str, **options: Any) -> Any:
    return live.call(method, path, key=CONTROL_TOKEN, **options)


def ask(live: LiveNode, query: str, **fields: Any) -> dict[str, Any]:
    answer = live.call("POST", "/v1/recall", json={"query": query, "track": False, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def stage(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in answer["stages"] if each["name"] == name)


def until_reindexed(live: LiveNode) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        state = admin(live, "GET", "/v1/embeddings").json()["reindex"]
        return state if state["status"] in ("done", "error") else None

    state = until(ended)
    assert state is not None
    return state


def test_a_write_may_wait_until_recall_finds_it_by_meaning(live: LiveNode) -> None:
    assert say(live, "grape harvest", wait="embedded")["embedded"] is True
    answer = ask(live, "harvest")
    assert answer["embedding"] == {"enabled": True, "model": "words"}
    assert stage(answer, "semantic") | {"milliseconds": 0} == {
        "name": "semantic",
        "status": "completed",
        "hits": 1,
        "milliseconds": 0,
        "detail": "",
        "label": "",
    }
    assert answer["facts"][0]["score_breakdown"]["semantic"] == 1.0
    assert "embedded" not in say(live, "no wish to wait")
    refused = live.call("POST", "/v1/facts", params={"wait": "forever"}, json={})
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"] == ["query", "wait"]


def test_a_known_question_right_after_the_start_waits_for_the_stored_vectors(
    live: LiveNode, ollama: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own vector is in the cache: nothing else would make it wait."""
    say(live, "grape harvest", wait="embedded")
    ask(live, "harvest")
    live.close()

    def slow(*given: Any) -> Any:
        assert not asked.wait(0.3)
        yield from load_vectors(*given)

    asked = threading.Event()
    monkeypatch.setattr("engramlog.projections.embedding.worker.load_vectors", slow)
    again = LiveNode(tmp_path / "data", **settings_for(ollama))
    try:
        again.node.embed(again.settings.embedding)
        answer = ask(again, "harvest")
        asked.set()
        assert stage(answer, "semantic")["status"] == "completed"
    finally:
        again.close()


def test_a_batch_may_wait_as_well(live: LiveNode) -> None:
    item = {
        "entity": "user:ben",
        "relation": "rel:note",
        "value": {"type": "text", "v": "olive oil"},
        "source": "agent:a",
        "scope": "local",
    }
    answer = live.call("POST", "/v1/facts/batch", params={"wait": "embedded"}, json=[item])
    assert answer.json()["embedded"] is True
    assert admin(live, "GET", "/v1/embeddings").json()["vectors"] == 1


def test_a_provider_that_is_away_leaves_recall_by_words(live: LiveNode, ollama: Server) -> None:
    say(live, "grape harvest", wait="embedded")
    before = ask(live, "harvest")
    ollama.script.extend(Scripted(status=503) for _ in range(200))
    answer = ask(live, "grape")
    assert [f["fact"]["value"]["v"] for f in answer["facts"]] == ["grape harvest"]
    assert stage(answer, "semantic")["status"] == "failed"
    assert stage(answer, "lexical")["status"] == "completed"
    # Its weight goes to the others in proportion: the ratio of lexical to graph stays.
    kept = {name: before["weights"][name] for name in before["weights"] if name != "semantic"}
    total = sum(kept.values())
    assert answer["weights"] == pytest.approx({n: w / total for n, w in kept.items()})


def test_a_new_fact_ranks_first_before_it_has_its_vector(live: LiveNode, ollama: Server) -> None:
    for text in ("green tea from the harbour", "a kettle for tea", "green lanterns", "black tea"):
        say(live, text, wait="embedded")
    question = "porcelain cups for green tea"
    ask(live, question)  # the question's own vector is at hand from here on
    released = threading.Event()
    ollama.script.append(Scripted(after=released))
    try:
        for profile in ("default", "stargraph", "abmind-head"):
            said = say(live, question)  # of the second on, that is the same fact
            answer = ask(live, question, profile=profile, explain=True)
            assert answer["facts"][0]["fact"]["id"] == said["id"], profile
            why = answer["results"][0]["explain"]["stages"]["semantic"]
            assert (why["raw"], why["unjudged"]) == (0.0, True)
            assert stage(answer, "semantic")["detail"] == "partial: 1 facts are not embedded yet"
    finally:
        released.set()
    until(lambda: not live.call("GET", "/readyz").json()["embedding"]["lag"])
    answer = ask(live, question, explain=True)
    assert "unjudged" not in answer["results"][0]["explain"]["stages"]["semantic"]


def test_lag_is_shown_and_does_not_make_the_node_unready(live: LiveNode, ollama: Server) -> None:
    ollama.script.extend(Scripted(status=503) for _ in range(200))
    written = say(live, "not yet")
    ready = live.call("GET", "/readyz")
    assert ready.status_code == 200
    assert ready.json()["embedding"]["lag"] >= 1
    assert re.search(r"^engramlog_embedding_lag [1-9]", live.call("GET", "/metrics").text, re.M)
    ollama.script.clear()
    assert live.node.embeddings is not None
    until(lambda: not live.call("GET", "/readyz").json()["embedding"]["lag"])
    assert written["position"] <= admin(live, "GET", "/v1/embeddings").json()["position"]


def test_a_slow_provider_costs_its_deadline_and_no_more(live: LiveNode, ollama: Server) -> None:
    say(live, "grape harvest", wait="embedded")
    profile = live.call("GET", "/v1/profiles/default").json()["document"]
    for each in profile["stages"]:
        each["deadline_ms"] = 60
    put = admin(live, "PUT", "/v1/profiles/hasty", json=profile | {"name": "hasty"})
    assert put.status_code == 200, put.text
    answered = threading.Event()
    ollama.script.append(Scripted(after=answered))
    answer = ask(live, "grape", profile="hasty")  # while the provider still thinks
    answered.set()
    assert stage(answer, "semantic")["status"] == "deadline"
    assert len(answer["facts"]) == 1


def test_a_stage_without_weight_does_not_run(live: LiveNode, ollama: Server) -> None:
    say(live, "grape harvest", wait="embedded")
    asked = len(ollama.requests)
    answer = ask(live, "grape", weights={"lexical": 0.7, "vector": 0.0, "graph": 0.3})
    assert stage(answer, "semantic")["status"] == "disabled"
    assert len(ollama.requests) == asked


def test_reindexing_changes_over_while_the_old_vectors_serve(
    live: LiveNode, ollama: Server, tmp_path: Path
) -> None:
    for n in range(20):
        say(live, f"grape number {n}")
    say(live, "last", wait="embedded")
    gate = threading.Event()

    def gated(body: dict[str, Any]) -> Any:
        if body["model"] == "other":
            gate.wait(SECONDS_MAX)
        return words_api(body)

    ollama.answer = gated
    target = {"provider": "ollama", "model": "other", "dimensions": OTHER_DIMENSIONS}
    begun = admin(live, "POST", "/v1/embeddings/reindex", json=target)
    assert begun.status_code == 202, begun.text
    during = ask(live, "grape")
    assert during["embedding"]["model"] == "words"
    assert stage(during, "semantic")["status"] == "completed"
    gate.set()
    state = until_reindexed(live)
    assert state["error"] is None
    assert state["result"]["changed"] is True
    assert state["result"]["vectors"] == 21
    after = ask(live, "grape number 7")
    assert after["embedding"]["model"] == "other"
    assert stage(after, "semantic")["status"] == "completed"
    assert live.call("GET", "/.well-known/stigmem").json()["embedding"] == {
        "model": "other",
        "dimensions": OTHER_DIMENSIONS,
        "truncated_dimensions": None,
    }
    files = sorted(path.name for path in (tmp_path / "data").glob("vectors-*.db"))
    assert files == [vectors_file(Space("ollama", "other", OTHER_DIMENSIONS))]


def test_reindexing_with_a_dead_provider_is_refused_and_changes_nothing(
    live: LiveNode, ollama: Server
) -> None:
    say(live, "grape harvest", wait="embedded")
    ollama.script.extend(Scripted(status=401, body={"error": "no"}) for _ in range(50))
    target = {"provider": "ollama", "model": "other", "dimensions": OTHER_DIMENSIONS}
    assert admin(live, "POST", "/v1/embeddings/reindex", json=target).status_code == 202
    state = until_reindexed(live)
    assert state["status"] == "error"
    ollama.script.clear()
    assert ask(live, "harvest")["embedding"]["model"] == "words"


def test_the_same_model_again_is_nothing_to_do(live: LiveNode) -> None:
    say(live, "grape harvest")
    assert admin(live, "POST", "/v1/embeddings/reindex").status_code == 202
    state = until_reindexed(live)
    assert state["result"]["changed"] is False
    assert state["result"]["vectors"] == 1


def test_unsupported_dimensions_are_refused(live: LiveNode) -> None:
    before = admin(live, "GET", "/v1/embeddings").json()["reindex"]
    model = {"provider": "minilm", "model": "all-MiniLM-L6-v2"}
    for wrong in ({"dimensions": 500}, {"truncated_dimensions": 200}):
        refused = admin(live, "POST", "/v1/embeddings/reindex", json={**model, **wrong})
        assert refused.status_code == 422
        assert refused.json()["detail"]["code"] == "embed_dimensionality_mismatch"
    unknown = admin(live, "POST", "/v1/embeddings/reindex", json={**model, "model": "none"})
    assert unknown.status_code == 422
    assert unknown.json()["detail"][0]["loc"] == ["body", "model"]
    assert admin(live, "GET", "/v1/embeddings").json()["reindex"] == before


def test_another_model_than_the_pinned_one_refuses_to_start(
    live: LiveNode, ollama: Server, tmp_path: Path
) -> None:
    say(live, "grape harvest", wait="embedded")
    live.close()
    wanted = EmbeddingSettings(
        provider="ollama", model="other", dimensions=OTHER_DIMENSIONS, url=ollama.url
    )
    with pytest.raises(DimensionMismatch, match="vec_facts dimensionality mismatch"):
        Node.open(tmp_path / "data", embedding=wanted)
    # It let go of everything: the directory opens with the pinned model, without a model call.
    asked = len(ollama.requests)
    node = Node.open(tmp_path / "data", embedding=EmbeddingSettings(url=ollama.url))
    try:
        assert node.embeddings is not None
        assert node.embeddings.space == Space("ollama", "words", DIMENSIONS)
        embeddings = node.embeddings
        until(lambda: (found := embeddings.status()) is not None and not found.lag)
        status = embeddings.status()
        assert status is not None
        assert (status.lag, status.vectors) == (0, 1)
    finally:
        node.close()
    assert len(ollama.requests) == asked


def test_a_recall_worker_reads_vectors_from_the_nodes_file(
    ollama: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EmbeddingSettings(url=ollama.url, memory_bytes=1)
    node = Node.open(tmp_path, embedding=settings)
    embeddings = node.embeddings
    assert embeddings is not None
    texts = [Value("text", f"note {number}") for number in range(3)]
    node.write(*[asserted("user:ann", "rel:note", text) for text in texts])
    until(lambda: (found := embeddings.status()) is not None and found.vectors == 3)
    slots = np.arange(3, dtype=np.int32)
    mine = embeddings.semantics
    assert mine is not None
    until(lambda: bool(mine.vectors.present(slots).all()))
    with monkeypatch.context() as context:
        context.delattr(KeptVecFacts, "id_pages")  # nothing is left to look up
        followed = FollowedEmbeddings.following(
            tmp_path, node.log, node.reader, settings, node.pinned_space(), ask=mine.query
        )
    assert followed._vectors is not None
    assert (followed._vectors.in_file, len(followed._vectors)) == (True, 3)
    assert followed.semantics is not None
    rows, _ = followed.semantics.vectors.rows(slots)
    assert rows.tobytes() == mine.vectors.rows(slots)[0].tobytes()
    followed._vectors.close()
    node.close()


def test_a_node_with_embeddings_off_does_not_reindex_without_a_provider(tmp_path: Path) -> None:
    live = LiveNode(tmp_path / "data", embed_enabled=False)
    live.node.embed(live.settings.embedding)
    refused = admin(live, "POST", "/v1/embeddings/reindex")
    assert (refused.status_code, refused.json()["detail"]["code"]) == (409, "embeddings_off")
    live.close()


def test_a_node_without_embeddings_says_so(tmp_path: Path) -> None:
    live = LiveNode(tmp_path / "data")
    try:
        say(live, "grape harvest", wait="embedded")
        answer = ask(live, "harvest")
        assert answer["embedding"] == {"enabled": False, "model": None}
        assert stage(answer, "semantic")["detail"] == "embeddings are off"
        refused = admin(live, "POST", "/v1/embeddings/reindex")
        assert (refused.status_code, refused.json()["detail"]["code"]) == (409, "embeddings_off")
    finally:
        live.close()
