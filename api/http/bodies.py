"""Bytes in, bytes out: bounded request bodies, strict JSON, JSON answers.

msgspec reads JSON: no NaN or Infinity, no lone surrogates, UTF-8 only. NUL is refused everywhere.
Repeated query parameters are refused; unknown ones cause a warning.
"""

import asyncio
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import msgspec
from aiohttp import HttpVersion11, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE
from pydantic import BaseModel, ValidationError

from engramlog.api.http.errors import ApiError, coded, entries_of, entry, invalid, unprocessable
from engramlog.eventlog.nesting import nests_deeper, values_in
from engramlog.projections.normalization import holds_nul

Model = TypeVar("Model", bound=BaseModel)

_decode = msgspec.json.Decoder().decode
encoded = msgspec.json.Encoder(enc_hook=str).encode
"""A body as JSON."""
_PLUS = re.compile(r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:.]+) ([0-9]{2}:[0-9]{2})$")
"""An instant whose ``+`` arrived as a space, because query strings encode a space as ``+``."""
JSON_DEPTH_MAX = 100
"""Deepest nesting of a body."""
VALUES_MAX = 1_000_000
"""Values of a body: 64 MB may hold 30 million, which would take gigabytes of memory."""
INFLATED_RATIO_MAX = 100
"""Bytes to which a byte of a compressed body may inflate."""
_GZIP_OR_ZLIB = 47
"""As ``zlib`` numbers it: the header decides."""
_NUL = re.compile(rb"\\u0000|\x00")
_FAULTS = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError)


class DirectResponse(web.Response):
    """An answer whose bytes are ready, written in one go.

    Before aiohttp writes a header, it examines a response for chunks, compression, cookies and
    lengths. Most answers need none of this: JSON of known length, over a connection that stays
    open. Others, such as HEAD or a closing connection, take aiohttp's own way. Sends no signals
    (``on_response_prepare``); the node uses none.
    """

    _writer: AbstractStreamWriter | None = None
    _sent = False

    @property
    def prepared(self) -> bool:
        return self._writer is not None or self._eof_sent or self._payload_writer is not None

    @property
    def keep_alive(self) -> bool | None:
        return True if self._writer is not None else super().keep_alive

    @property
    def body_length(self) -> int:
        return super().body_length if self._writer is None else self._writer.output_size

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if self._writer is not None:
            return self._writer
        headers, body, status = self._headers, self._body, self._status
        if (
            not body
            or not isinstance(body, bytes)
            or status in (204, 304)
            or request.version != HttpVersion11
            or not request.keep_alive
            or request.method == hdrs.METH_HEAD
            or hdrs.CONNECTION in headers
        ):
            return await super().prepare(request)
        headers[hdrs.CONTENT_LENGTH] = str(len(body))
        headers[hdrs.DATE] = rfc822_formatted_time()
        headers[hdrs.SERVER] = SERVER_SOFTWARE
        self._writer = writer = request.writer
        await writer.write_headers(f"HTTP/1.1 {status} {self._reason}", headers)
        return writer

    async def write_eof(self, data: bytes = b"") -> None:
        if self._writer is None:
            await super().write_eof(data)
        elif not self._sent:
            self._sent = True
            body = self._body
            assert isinstance(body, bytes)
            await self._writer.write_eof(body)


def answer(
    body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A JSON response."""
    return json_answer(encoded(body), status, headers)


def json_answer(
    data: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A response of encoded JSON."""
    return DirectResponse(
        body=data, status=status, headers=headers, content_type="application/json"
    )


async def read_bytes(request: web.Request, limit: int) -> bytes:
    """The request's body, inflated. Raises ApiError 413 as soon as it exceeds ``limit`` bytes, 400
    ``malformed_body`` if it does not match its headers, 415 for another encoding than gzip and
    deflate."""
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if encoding == "identity":
        return await _received(request, limit)
    if encoding not in ("gzip", "deflate"):
        raise coded("unsupported_encoding", "send the body plain, or as gzip or deflate")
    data = await _received(request, limit)
    return await asyncio.to_thread(_inflated, data, min(limit, len(data) * INFLATED_RATIO_MAX))


def _inflated(data: bytes, limit: int) -> bytes:
    """Never inflates more than ``limit`` bytes. aiohttp would inflate a whole body, and in the
    event loop: 2 MB that inflate to 2 GB would stop the node for seconds."""
    inflater = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
    try:
        plain = inflater.decompress(data, limit + 1)
    except zlib.error as fault:
        raise _malformed() from fault
    if len(plain) > limit:
        raise _too_large(limit)
    if not inflater.eof or inflater.unused_data:
        raise _malformed()
    return plain


async def _received(request: web.Request, limit: int) -> bytes:
    """The body as sent. Raises ApiError 413, 400 ``malformed_body``."""
    declared = request.content_length
    if declared is not None and declared > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    content = request.content
    try:
        if content.is_eof():  # the whole body came with the header
            data = content.read_nowait()
            if len(data) > limit:
                raise _too_large(limit)
            return data
        async for chunk in content.iter_any():
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
    except web.RequestPayloadError as fault:
        raise _malformed() from fault
    return b"".join(chunks)


def _malformed() -> ApiError:
    message = "the body does not arrive as its headers say"
    return ApiError(
        400, {"code": "malformed_body", "message": message}, headers={"Connection": "close"}
    )


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413,
        {"code": "body_too_large", "message": f"request body exceeds {limit} bytes"},
        headers={"Connection": "close"},
        extra={"max_request_body_bytes": limit},
    )


def parse_json(data: bytes, what: str = "the body") -> Any:
    """Strict JSON. Raises ApiError 400 ``malformed_json`` with ``what`` in the message."""
    _check_values(data, what)
    if nests_deeper(data, JSON_DEPTH_MAX):
        raise coded("malformed_json", f"{what} has more than {JSON_DEPTH_MAX} levels")
    try:
        value = _decode(data)
    except _FAULTS as fault:
        raise coded("malformed_json", f"{what} is not JSON: {_reason(fault)}") from fault
    if _NUL.search(data) and holds_nul(value):
        raise coded("malformed_json", "strings must not hold the NUL character")
    return value


def parse_lines(data: bytes) -> list[Any]:
    """A strict JSON value per line; empty lines do not count. Raises ApiError 400
    ``malformed_json`` with the line's number."""
    _check_values(data, "the body")
    lines = data.split(b"\n")
    if not _NUL.search(data) and not any(nests_deeper(line, JSON_DEPTH_MAX) for line in lines):
        with suppress(*_FAULTS):
            return [_decode(line) for line in lines if line.strip()]
    return [parse_json(line, f"line {n}") for n, line in enumerate(lines, 1) if line.strip()]


def _check_values(data: bytes, what: str) -> None:
    if len(data) > VALUES_MAX and values_in(data) > VALUES_MAX:
        raise coded("malformed_json", f"{what} has more than {VALUES_MAX} values")


def _reason(fault: Exception) -> str:
    if str(fault) == "Input data was truncated":
        return "it ends too early, or holds a lone surrogate"
    return str(fault)


def validated(model: type[Model], value: object, *where: str | int) -> Model:
    """``value`` as ``model``. Raises ApiError 422 with ``loc`` starting at ``where``."""
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        raise unprocessable(entries_of(fault, *where)) from fault


def parse_body(model: type[Model], data: bytes) -> Model:
    """A JSON body as ``model``. Raises ApiError 400 or 422."""
    if not data.strip():
        raise invalid("missing", ["body"], "Field required")
    return validated(model, parse_json(data), "body")


def unknown_fields(item: BaseModel) -> list[str]:
    """Names in the request that the model lacks, in the order sent."""
    return list(item.__pydantic_extra__ or ())


def query_of(model: type[Model], request: web.Request) -> Model:
    """The query string as ``model`` (empty parameters count as absent). Raises ApiError 422 for a
    repeated or ill-typed parameter."""
    if not request.query_string:
        return _without_query(model)
    pairs = request.query
    repeated = sorted({name for name in pairs if len(pairs.getall(name)) > 1})
    if repeated:
        raise unprocessable(
            [
                entry("repeated_parameter", ["query", name], "must occur at most once")
                for name in repeated
            ]
        )
    bad = [name for name, text in pairs.items() if "\x00" in text or not _is_text(text)]
    if bad:
        raise unprocessable(
            [entry("invalid_text", ["query", name], "must be valid UTF-8 text") for name in bad]
        )
    given = {name: _PLUS.sub(r"\1+\2", text) for name, text in pairs.items() if text != ""}
    return validated(model, given, "query")


@cache
def _without_query(model: type[Model]) -> Model:
    """The model of an empty query string. Shared, because no code changes a query."""
    return validated(model, {}, "query")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
