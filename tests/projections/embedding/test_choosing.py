import pytest

from engramlog.eventlog.kinds import EmbeddingModelPinned
from engramlog.projections.embedding.choosing import EmbeddingSettings, choose, follow_pin, space_of
from engramlog.projections.embedding.errors import DimensionMismatch, ModelMismatch, UnknownModel
from engramlog.projections.embedding.recipe import Space
from tests.worlds.provider_servers import ollama_api, openai_api, serving, unused_port

NOMIC = Space("ollama", "nomic-embed-text", 768)
MINILM = Space("minilm", "all-MiniLM-L6-v2-int8", 384)
FLOAT32 = Space("minilm", "all-MiniLM-L6-v2", 384)


def absent() -> str:
    return f"http://127.0.0.1:{unused_port()}"


def test_auto_takes_ollama_where_it_answers_at_the_first_start() -> None:
    with serving(ollama_api) as server:
        chosen = choose(EmbeddingSettings(url=server.url), None, {})
        assert chosen.space == NOMIC
        assert chosen.pin
        chosen.provider.close()


def test_auto_takes_the_bundled_model_where_ollama_does_not_answer() -> None:
    chosen = choose(EmbeddingSettings(url=absent()), None, {})
    assert chosen.space == MINILM
    assert chosen.pin


def test_auto_says_that_it_ignores_a_model(caplog: pytest.LogCaptureFixture) -> None:
    assert choose(EmbeddingSettings(url=absent()), MINILM, {}).space == MINILM
    assert not caplog.records
    assert choose(EmbeddingSettings(url=absent(), model="other"), MINILM, {}).space == MINILM
    assert "needs the name of its provider" in caplog.text


def test_auto_keeps_the_pinned_model_even_if_it_does_not_answer() -> None:
    chosen = choose(EmbeddingSettings(url=absent()), NOMIC, {})
    assert chosen.space == NOMIC
    assert not chosen.pin
    chosen.provider.close()


def test_a_setting_that_differs_from_the_pin_refuses_to_start() -> None:
    with pytest.raises(DimensionMismatch, match="vec_facts dimensionality mismatch"):
        choose(EmbeddingSettings(provider="minilm"), NOMIC, {})
    cut = EmbeddingSettings(provider="ollama", truncated_dimensions=256)
    with pytest.raises(DimensionMismatch):
        choose(cut, NOMIC, {})
    other = EmbeddingSettings(provider="ollama", model="all-minilm", dimensions=768)
    with pytest.raises(ModelMismatch):
        choose(other, NOMIC, {})


@pytest.mark.parametrize("provider", ["auto", "minilm", "ollama"])
def test_declared_dimensions_that_differ_from_the_pin_refuse_to_start(provider: str) -> None:
    declared = EmbeddingSettings(provider=provider, dimensions=512, url=absent())
    for pinned in (NOMIC, MINILM):
        with pytest.raises(DimensionMismatch, match="configured is 512 dimensions"):
            choose(declared, pinned, {})


def test_auto_does_not_pin_a_model_of_other_than_the_declared_dimensions() -> None:
    with pytest.raises(UnknownModel, match="has 384 dimensions, not 768"):
        choose(EmbeddingSettings(dimensions=768, url=absent()), None, {})


def test_reindexing_follows_the_settings_and_pins_them() -> None:
    chosen = choose(EmbeddingSettings(provider="minilm"), NOMIC, {}, reindex=True)
    assert chosen.space == MINILM
    assert chosen.pin


def test_a_provider_without_a_model_keeps_the_pinned_one_until_a_reindexing() -> None:
    settings = EmbeddingSettings(provider="minilm")
    kept = choose(settings, FLOAT32, {})
    assert (kept.space, kept.pin) == (FLOAT32, False)
    changed = choose(settings, FLOAT32, {}, reindex=True)
    assert (changed.space, changed.pin) == (MINILM, True)
    named = EmbeddingSettings(provider="minilm", model=MINILM.model)
    with pytest.raises(ModelMismatch):
        choose(named, FLOAT32, {})


def test_an_equal_setting_is_not_pinned_again() -> None:
    assert not choose(EmbeddingSettings(provider="minilm"), MINILM, {}).pin


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (EmbeddingSettings(provider="gemini"), "no provider 'gemini'"),
        (EmbeddingSettings(provider="openai"), "needs OPENAI_API_KEY"),
        (EmbeddingSettings(provider="voyage"), "needs VOYAGE_API_KEY"),
        (EmbeddingSettings(provider="voyage", truncated_dimensions=64), "cannot be truncated"),
        (EmbeddingSettings(provider="ollama", truncated_dimensions=32), "64 to 767"),
        (EmbeddingSettings(provider="ollama", model="mystery"), "declare its dimensions"),
        (EmbeddingSettings(provider="ollama", url="ftp://x"), "not an http"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(
    settings: EmbeddingSettings, told: str
) -> None:
    with pytest.raises(UnknownModel, match=told):
        choose(settings, None, {})


def test_a_remote_provider_takes_its_key_from_the_environment() -> None:
    chosen = choose(EmbeddingSettings(provider="openai"), None, {"OPENAI_API_KEY": "sk-x"})
    assert chosen.space == Space("openai", "text-embedding-3-small", 1536)
    chosen.provider.close()


def test_a_key_may_end_with_the_line_of_its_file() -> None:
    with serving(openai_api) as server:
        settings = EmbeddingSettings(provider="openai", url=server.url)
        chosen = choose(settings, None, {"OPENAI_API_KEY": "sk-x\n"})
        chosen.provider.embed(["one"])
        chosen.provider.close()
    assert server.requests[0][1]["Authorization"] == "Bearer sk-x"


def test_none_turns_embeddings_off_with_any_pinned_model() -> None:
    chosen = choose(EmbeddingSettings(provider="none"), NOMIC, {})
    assert chosen.space is None
    assert not chosen.pin


def test_an_event_records_the_pinned_space() -> None:
    event = EmbeddingModelPinned(
        provider="ollama",
        model="nomic-embed-text",
        dimensions=768,
        recipe="fact/1",
        truncated_dimensions=256,
    )
    assert space_of(event) == Space("ollama", "nomic-embed-text", 768, 256, "fact/1")
    assert space_of(None) is None


def test_a_command_on_any_pinned_model_keeps_the_limit_of_memory() -> None:
    settings = EmbeddingSettings(provider="minilm", min_confidence=0.3, memory_bytes=1 << 20)
    followed = follow_pin(settings, Space("openai", "text-embedding-3-small", 1536))
    assert followed == EmbeddingSettings(min_confidence=0.3, memory_bytes=1 << 20)
