"""Voyage AI: ``POST /embeddings``.

Request ``{"model", "input": [texts], "input_type": "document"|"query", "truncation": true}``;
answer ``{"data": [{"index", "embedding"}]}``; errors ``{"detail": "…"}``. At most 1,000 texts per
request (128 for older accounts) and 1,000,000 tokens for ``voyage-3-lite``.
"""

from collections.abc import Sequence

from engramlog.projections.embedding.providers.openai import indexed_vectors
from engramlog.projections.embedding.providers.provider import Purpose
from engramlog.projections.embedding.providers.remote import Dialect, RequestLimits

URL = "https://api.voyageai.com/v1"
KEY_VARIABLE = "VOYAGE_API_KEY"


def _body(model: str, texts: Sequence[str], purpose: Purpose) -> object:
    return {"model": model, "input": texts, "input_type": purpose, "truncation": True}


def _vectors(body: bytes) -> list[list[float]]:
    return indexed_vectors("voyage", body)


DIALECT = Dialect("/embeddings", _body, _vectors, RequestLimits(128, 120_000, 32_768, 4))
