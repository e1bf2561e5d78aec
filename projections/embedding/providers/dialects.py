"""The APIs of the remote providers.

- Ollama, a local server: ``POST /api/embed`` with ``{"model", "input": [texts], "truncate":
  true}``; answer ``{"embeddings": [[…]]}``; errors ``{"error": "…"}``, 404 for a model that was not
  pulled.
- OpenAI, and servers with its API: ``POST /embeddings`` with ``{"model", "input": [texts],
  "encoding_format": "float"}``; answer ``{"data": [{"index", "embedding"}]}``; errors ``{"error":
  {"message", "code"}}``. At most 2,048 inputs and 300,000 tokens per request, 8,192 tokens per
  input, none empty.
- Voyage AI: ``POST /embeddings`` with ``{"model", "input": [texts], "input_type":
  "document"|"query", "truncation": true}``; answer as OpenAI; errors ``{"detail": "…"}``. At most
  1,000 texts per request (128 for older accounts) and 1,000,000 tokens for ``voyage-3-lite``.
"""

import msgspec
from msgspec import Struct

from engramlog.projections.embedding.errors import BadAnswer
from engramlog.projections.embedding.providers.remote import Dialect, RequestLimits


class _OllamaAnswer(Struct):
    embeddings: list[list[float]]


class _Item(Struct):
    index: int
    embedding: list[float]


class _Answer(Struct):
    data: list[_Item]


def _indexed_vectors(body: bytes) -> list[list[float]]:
    """The vectors of ``data`` by ``index``."""
    items = sorted(msgspec.json.decode(body, type=_Answer).data, key=lambda item: item.index)
    if [item.index for item in items] != list(range(len(items))):
        raise BadAnswer(f"the indices are not 0 to {len(items) - 1}")
    return [item.embedding for item in items]


DIALECTS = {
    "ollama": Dialect(
        url="http://127.0.0.1:11434",
        path="/api/embed",
        body=lambda model, texts, _: {"model": model, "input": texts, "truncate": True},
        vectors=lambda body: msgspec.json.decode(body, type=_OllamaAnswer).embeddings,
        # One machine computes all requests: more than two at a time only wait in the server.
        limits=RequestLimits(64, 262_144, 32_768, 2),
    ),
    "openai": Dialect(
        url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        path="/embeddings",
        body=lambda model, texts, _: {
            "model": model,
            "input": texts,
            "encoding_format": "float",
        },
        vectors=_indexed_vectors,
        limits=RequestLimits(256, 262_144, 8_000, 4),
    ),
    "voyage": Dialect(
        url="https://api.voyageai.com/v1",
        key_variable="VOYAGE_API_KEY",
        path="/embeddings",
        body=lambda model, texts, purpose: {
            "model": model,
            "input": texts,
            "input_type": purpose,
            "truncation": True,
        },
        vectors=_indexed_vectors,
        limits=RequestLimits(128, 120_000, 32_768, 4),
    ),
}
