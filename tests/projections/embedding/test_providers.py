from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from engramlog.projections.embedding.embedder import UncachedEmbedder
from engramlog.projections.embedding.errors import (
    BadAnswer,
    EmbeddingsOff,
    ProviderRefused,
    ProviderUnavailable,
    UnknownModel,
)
from engramlog.projections.embedding.providers.dialects import DIALECTS
from engramlog.projections.embedding.providers.http import CircuitBreaker, HttpClient
from engramlog.projections.embedding.providers.models import card_of
from engramlog.projections.embedding.providers.provider import NoProvider, Purpose
from engramlog.projections.embedding.providers.remote import RemoteProvider
from engramlog.projections.embedding.recipe import Space
from tests.worlds.provider_servers import (
    Scripted,
    Server,
    numbers,
    ollama_api,
    openai_api,
    serving,
    unused_port,
    voyage_api,
)
from tests.worlds.waiting import until

KEY = "sk-very-secret"
QUICK: dict[Purpose, float] = {"document": 60.0, "query": 0.3}


def client(url: str, key: str | None = None, **more: Any) -> HttpClient:
    return HttpClient(url, key=key, timeouts=QUICK, **more)


def remote(
    name: str, model: str, client: HttpClient, dimensions: int | None = None
) -> RemoteProvider:
    card = card_of(name, model, dimensions)
    return RemoteProvider(name, model, card, DIALECTS[name], client)


CASES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "ollama": (ollama_api, "nomic-embed-text"),
    "openai": (openai_api, "text-embedding-3-small"),
    "voyage": (voyage_api, "voyage-3-lite"),
}


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Iterator[tuple[RemoteProvider, Server]]:
    answer, model = CASES[request.param]
    with serving(answer) as server:
        provider = remote(request.param, model, client(server.url, KEY))
        yield provider, server
        provider.close()


def test_vectors_come_back_as_unit_rows_in_the_order_of_the_texts(case: Any) -> None:
    provider, server = case
    rows = provider.embed(["one", "two"])
    assert rows.shape == (2, provider.dimensions)
    assert rows.dtype == np.float32
    prefix = "search_document: " if provider.name == "ollama" else ""
    for row, text in zip(rows, ["one", "two"], strict=True):
        expected = np.array(numbers(prefix + text, provider.dimensions))
        assert row == pytest.approx(expected / np.linalg.norm(expected), abs=1e-6)
    assert len(server.requests) == 1
    assert server.requests[0][1]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("model", "reads"),
    [("nomic-embed-text:latest", False), ("mxbai-embed-large", False), ("bge-m3", True)],
)
def test_a_model_of_english_reads_no_other_script(model: str, reads: bool) -> None:
    dimensions = 1024 if reads else None
    provider = remote("ollama", model, client("http://127.0.0.1:1"), dimensions)
    space = Space("ollama", model, provider.dimensions)
    embedder = UncachedEmbedder(provider, space, card_of("ollama", model, dimensions))
    assert embedder.reads("Wer trinkt grünen Tee?")
    assert embedder.reads("Кто пьёт чай?") == reads


def test_no_texts_ask_nothing(case: Any) -> None:
    provider, server = case
    assert provider.embed([]).shape == (0, provider.dimensions)
    assert server.requests == []


def test_many_texts_are_cut_into_requests_and_put_together_in_order(case: Any) -> None:
    provider, server = case
    texts = [f"text {n}" for n in range(700)]
    rows = provider.embed(texts)
    assert len(server.requests) > 1
    assert max(len(body["input"]) for _, _, body in server.requests) <= 256
    alone = provider.embed([texts[613]])
    assert np.array_equal(rows[613], alone[0])


def test_a_long_text_is_cut_and_a_blank_one_is_never_sent_empty(case: Any) -> None:
    provider, server = case
    provider.embed(["é" * 100_000, "  ", ""], "query")
    sent = server.requests[0][2]["input"]
    assert len(sent[0].encode()) <= 32_768
    assert all(text.strip() for text in sent)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_overloaded_provider_is_unavailable_and_answers_the_next_request(
    case: Any, status: int
) -> None:
    provider, server = case
    server.script.append(Scripted(status, {"error": {"message": "overloaded"}}))
    with pytest.raises(ProviderUnavailable, match=f"{status}: overloaded"):
        provider.embed(["one"])
    assert provider.embed(["one"]).shape[0] == 1
    assert len(server.requests) == 2


def test_the_caller_learns_when_to_retry(case: Any) -> None:
    provider, server = case
    server.script.append(Scripted(429, {"detail": "slow down"}, {"Retry-After": "3600"}))
    with pytest.raises(ProviderUnavailable) as caught:
        provider.embed(["one"])
    assert caught.value.retry_after_seconds == 3600


def test_the_time_to_retry_may_be_a_date() -> None:
    with serving(openai_api) as server:
        # Wed, 21 Oct 2015 07:28:00 GMT
        http = HttpClient(server.url, timeouts=QUICK, now=lambda: 1445412480.0)
        provider = remote("openai", "text-embedding-3-small", http)
        date = {"Retry-After": "Wed, 21 Oct 2015 07:28:10 GMT"}
        server.script.append(Scripted(429, b"{}", date))
        with pytest.raises(ProviderUnavailable) as caught:
            provider.embed(["one"])
        provider.close()
    assert caught.value.retry_after_seconds == 10.0


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, {"error": {"message": "Incorrect API key provided"}}, "Incorrect API key"),
        (400, {"detail": "The request body is not valid"}, "not valid"),
        (404, {"error": 'model "x" not found, try pulling it first'}, "try pulling"),
        (400, b'{"error": "\xff"}', '400: {"error": '),
        (302, b"moved", "302"),
    ],
)
def test_a_refusal_is_not_retried_and_gives_the_reason(
    case: Any, status: int, body: object, told: str
) -> None:
    provider, server = case
    server.script.append(Scripted(status, body, {"Location": "http://127.0.0.1:1/"}))
    with pytest.raises(ProviderRefused, match=told) as caught:
        provider.embed(["one"])
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)


def test_an_empty_account_is_a_refusal_although_it_is_a_429() -> None:
    error = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    with serving(openai_api) as server:
        server.script.append(Scripted(429, error))
        provider = remote("openai", "text-embedding-3-small", client(server.url, KEY))
        with pytest.raises(ProviderRefused, match="quota"):
            provider.embed(["one"])
        provider.close()


@pytest.mark.parametrize(
    "body",
    [
        b'{"embeddings": [[0.1, 0.2',
        b"<html>",
        b"",
        b"{}",
        b"[]",
        {"embeddings": [[0.1] * 5], "data": [{"index": 0, "embedding": [0.1] * 5}]},
        {"embeddings": [], "data": []},
        {"embeddings": [["x"]], "data": [{"index": 0, "embedding": ["x"]}]},
        {"embeddings": [[0.0] * 768], "data": [{"index": 0, "embedding": [0.0] * 1536}]},
        {"embeddings": [[1e300] * 768], "data": [{"index": 0, "embedding": [1e300] * 512}]},
        {"embeddings": [[1, 2], [1]], "data": [{"index": 3, "embedding": [0.1] * 512}]},
    ],
)
def test_an_answer_that_is_not_the_vectors_asked_for_is_an_error(case: Any, body: object) -> None:
    provider, server = case
    server.script.append(Scripted(200, body))
    with pytest.raises(BadAnswer):
        provider.embed(["one"])


def test_an_answer_cut_short_is_unavailability(case: Any) -> None:
    provider, server = case
    server.script.append(Scripted(200, b'{"da', promised_length=4000))
    with pytest.raises(ProviderUnavailable, match="cannot be reached"):
        provider.embed(["one"])


def test_a_query_does_not_wait_for_a_slow_answer(case: Any) -> None:
    provider, server = case
    server.script.append(Scripted(200, b"{}", delay_seconds=1.0))
    with pytest.raises(ProviderUnavailable, match="cannot be reached"):
        provider.embed(["one"], "query")
    assert len(server.requests) == 1


def test_an_answer_that_drips_is_held_to_the_same_deadline(case: Any) -> None:
    provider, server = case
    server.script.append(Scripted(200, b" " * 1000, drip_seconds=0.05))
    with pytest.raises(ProviderUnavailable, match=r"in time|timed out"):
        provider.embed(["one"], "query")


def test_a_refused_connection_is_unavailability(case: Any) -> None:
    provider, _ = case
    _, model = CASES[provider.name]
    absent = remote(provider.name, model, client(f"http://127.0.0.1:{unused_port()}"))
    with pytest.raises(ProviderUnavailable, match="cannot be reached"):
        absent.embed(["one"])
    absent.close()


def test_a_connection_closed_while_idle_is_replaced_without_a_retry(case: Any) -> None:
    provider, server = case
    server.close_after_answer = True
    for number in range(1, 4):
        provider.embed(["one"])
        assert until(lambda closed=number: server.connections_closed == closed)
    assert len(server.requests) == 3


def test_after_failures_in_a_row_no_request_goes_out_until_the_breaker_allows_one() -> None:
    clock = [0.0]
    breaker = CircuitBreaker(lambda: clock[0], failures_max=3, cool_down_seconds=30.0)
    with serving(openai_api) as server:
        server.script.extend([Scripted(500)] * 4)
        provider = remote("openai", "text-embedding-3-small", client(server.url, breaker=breaker))
        for _ in range(3):
            with pytest.raises(ProviderUnavailable, match="500"):
                provider.embed(["one"])
        with pytest.raises(ProviderUnavailable, match="paused for 30 s") as caught:
            provider.embed(["one"])
        assert caught.value.retry_after_seconds == 30.0
        assert len(server.requests) == 3
        clock[0] = 31.0
        with pytest.raises(ProviderUnavailable, match="500"):
            provider.embed(["one"])  # its single trial fails, and the breaker opens again
        with pytest.raises(ProviderUnavailable, match="paused for 30 s"):
            provider.embed(["one"])
        assert len(server.requests) == 4
        clock[0] = 62.0
        assert provider.embed(["one"]).shape == (1, 1536)
        assert provider.embed(["two"]).shape == (1, 1536)
        provider.close()


def test_prefixes_mark_documents_and_queries() -> None:
    with serving(ollama_api) as server:
        provider = remote("ollama", "nomic-embed-text", client(server.url))
        provider.embed(["who?"], "query")
        assert server.requests[0][2] == {
            "model": "nomic-embed-text",
            "input": ["search_query: who?"],
            "truncate": True,
        }
        provider.close()
    with serving(voyage_api) as server:
        provider = remote("voyage", "voyage-3-lite", client(server.url, KEY))
        provider.embed(["who?"], "query")
        assert server.requests[0][0] == "/embeddings"
        assert server.requests[0][2] == {
            "model": "voyage-3-lite",
            "input": ["who?"],
            "input_type": "query",
            "truncation": True,
        }
        provider.close()


def test_a_key_is_not_sent_unencrypted_to_another_machine() -> None:
    with pytest.raises(UnknownModel, match="unencrypted"):
        HttpClient("http://embed.example/v1", key=KEY)


def test_a_model_without_a_card_needs_its_dimensions_declared() -> None:
    client = HttpClient("http://127.0.0.1:1")
    with pytest.raises(UnknownModel, match="declare its dimensions"):
        remote("ollama", "snowflake-arctic-embed", client)
    with pytest.raises(UnknownModel, match="has 768 dimensions, not 64"):
        remote("ollama", "nomic-embed-text", client, 64)
    provider = remote("ollama", "snowflake-arctic-embed", client, 1024)
    assert provider.dimensions == 1024
    provider.close()


def test_without_a_provider_every_request_raises_embeddings_off() -> None:
    with pytest.raises(EmbeddingsOff):
        NoProvider().embed(["one"])
