"""Ollama: ``POST /api/embed`` of a local server.

Request ``{"model", "input": [texts], "truncate": true}``; answer ``{"embeddings": [[…]]}``; errors
``{"error": "…"}``, 404 for a model that was not pulled.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from engramlog.projections.embedding.errors import BadAnswer
from engramlog.projections.embedding.providers.provider import Purpose
from engramlog.projections.embedding.providers.remote import Dialect, RequestLimits

URL = "http://127.0.0.1:11434"


class _Answer(Struct):
    embeddings: list[list[float]]


_decode = msgspec.json.Decoder(_Answer).decode


def _body(model: str, texts: Sequence[str], _purpose: Purpose) -> object:
    return {"model": model, "input": texts, "truncate": True}


def _vectors(body: bytes) -> list[list[float]]:
    try:
        return _decode(body).embeddings
    except msgspec.DecodeError as fault:
        raise BadAnswer(f"ollama: {fault}") from fault


# One machine computes all requests: more than two at a time only wait in the server.
DIALECT = Dialect("/api/embed", _body, _vectors, RequestLimits(64, 262_144, 32_768, 2))
