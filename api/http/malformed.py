"""Answers requests that are no HTTP, or whose header is too large, as every other failure."""

import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from engramlog.api.http.bodies import answer
from engramlog.api.http.errors import ApiError, coded

_log = logging.getLogger(__name__)

HEADER_BYTES_MAX = 8_190
"""Of a request's line, and of each header field."""
HEADERS_MAX = 128
MESSAGE_LENGTH_MAX = 300


class RequestServer(web.Server):
    """aiohttp's server with our answers to malformed requests."""

    def __call__(self) -> web.RequestHandler:
        return _RequestProtocol(
            self,
            loop=self._loop,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            max_headers=HEADERS_MAX,
            **self._kwargs,
        )


class _RequestProtocol(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        fault = malformed(exc)
        _log.info("malformed request from %s: %s", request.remote, fault)
        response = answer(fault.body(), fault.status, fault.headers)
        response.force_close()
        return response


def malformed(fault: HttpProcessingError) -> ApiError:
    """The answer to a request that the HTTP parser refuses."""
    if isinstance(fault, LineTooLong):
        return coded(
            "header_too_large",
            f"the request line and each header may have at most {HEADER_BYTES_MAX} bytes",
        )
    reason = " ".join(fault.message.split())[:MESSAGE_LENGTH_MAX]
    return coded("malformed_request", f"not an HTTP request: {reason}")
