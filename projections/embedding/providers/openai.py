"""OpenAI, and servers with its API: ``POST /embeddings``.

Request ``{"model", "input": [texts], "encoding_format": "float"}``; answer ``{"data": [{"index",
"embedding"}]}``; errors ``{"error": {"message", "code"}}``. At most 2,048 inputs and 300,000 tokens
per request, 8,192 tokens per input, none empty.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from engramlog.projections.embedding.errors import BadAnswer
from engramlog.projections.embedding.providers.provider import Purpose
from engramlog.projections.embedding.providers.remote import Dialect, RequestLimits

URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"


class _Item(Struct):
    index: int
    embedding: list[float]


class _Answer(Struct):
    data: list[_Item]


_decode = msgspec.json.Decoder(_Answer).decode


def _body(model: str, texts: Sequence[str], _purpose: Purpose) -> object:
    return {"model": model, "input": texts, "encoding_format": "float"}


def indexed_vectors(provider: str, body: bytes) -> list[list[float]]:
    """The vectors of ``data`` by ``index``. Raises BadAnswer."""
    try:
        items = sorted(_decode(body).data, key=lambda item: item.index)
    except msgspec.DecodeError as fault:
        raise BadAnswer(f"{provider}: {fault}") from fault
    if [item.index for item in items] != list(range(len(items))):
        raise BadAnswer(f"{provider}: the indices are not 0 to {len(items) - 1}")
    return [item.embedding for item in items]


def _vectors(body: bytes) -> list[list[float]]:
    return indexed_vectors("openai", body)


DIALECT = Dialect("/embeddings", _body, _vectors, RequestLimits(256, 262_144, 8_000, 4))
