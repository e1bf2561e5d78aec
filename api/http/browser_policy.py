"""The requests that web pages may make to this node through a browser, and the answers they may
read.

``Origin`` shows pages of other sites; they are refused. ``Host`` shows pages under another name
that now points here (DNS rebinding); without authentication, they are refused. A body that browsers
send without a preflight is refused if it comes without a key.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Self
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from engramlog.api.http.errors import coded
from engramlog.api.settings import Settings

PREFLIGHT_SECONDS = 600
EXPOSED_HEADERS = "X-Total-Count, Retry-After"
DEV_ORIGIN = re.compile(r"https?://(localhost|127\.0\.0\.1)(:[0-9]{1,5})?")
LOOPBACK_HOST = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1")
SIMPLE_TYPES = frozenset(
    {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}
)
"""Media types of bodies that browsers send to any site without a preflight."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class BrowserPolicy:
    """See the module. Made once from the settings."""

    origins: frozenset[str]
    origin_pattern: re.Pattern[str] | None
    dev_localhost: bool
    credentials: bool
    hosts: frozenset[str] | None
    """Names that this node answers to; None for any."""
    public: tuple[str, int | None] | None
    """Host and port of the node's own pages at ``node_url``: a proxy may name another ``Host``."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The policy from the settings."""
        pattern = settings.cors_allowed_origin_regex
        hosts = None
        if not settings.auth_required:
            own = urlsplit(settings.public_url).hostname or ""
            given = {host.lower() for host in settings.allowed_hosts}
            hosts = frozenset({own, settings.host.lower(), *given})
        return cls(
            origins=frozenset(
                origin.rstrip("/").lower() for origin in settings.cors_allowed_origins
            ),
            origin_pattern=re.compile(pattern) if pattern else None,
            dev_localhost=settings.cors_dev_localhost,
            credentials=settings.cors_allow_credentials,
            hosts=hosts,
            public=_parts(settings.node_url),
        )

    @cached_property
    def configured(self) -> bool:
        """Whether pages of other origins have access."""
        return bool(self.origins or self.origin_pattern or self.dev_localhost)

    def check(self, request: web.Request) -> None:
        """Raises ApiError 403 ``host_forbidden`` or ``origin_forbidden``, 415 for a body that
        browsers send without a preflight."""
        headers = request.headers
        origin = headers.get(hdrs.ORIGIN)
        if self.hosts is not None or origin is not None:
            self._check_names(request, origin)
        if hdrs.AUTHORIZATION not in headers and request.body_exists:
            declared = headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0]
            if declared.strip().lower() in SIMPLE_TYPES:
                message = "declare the body with Content-Type: application/json (curl --json)"
                raise coded("unsupported_media_type", message)

    def _check_names(self, request: web.Request, origin: str | None) -> None:
        """Raises ApiError 403 for a wrong host name or a foreign page."""
        host, port = _host_of(request)
        if self.hosts is not None and not self._is_own(host):
            raise coded("host_forbidden", f"this node does not answer under the name {host!r}")
        if origin is not None and not self.allows(origin):
            own = (host, port or _PORTS.get(origin.partition(":")[0]))
            page = _parts(origin)
            if page is None or page not in (own, self.public):
                raise coded("origin_forbidden", "pages of this origin may not use this node")

    def allows(self, origin: str) -> bool:
        """Whether pages of another origin may use this node."""
        if self.dev_localhost and DEV_ORIGIN.fullmatch(origin):
            return True
        if self.origin_pattern is not None and self.origin_pattern.fullmatch(origin):
            return True
        return origin in self.origins

    def headers(self, request: web.Request) -> dict[str, str]:
        """The headers that let the page read the answer."""
        if not self.configured:
            return {}
        headers = {"Vary": "Origin"}
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and self.allows(origin):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
            if self.credentials:
                headers["Access-Control-Allow-Credentials"] = "true"
        return headers

    def preflight(self, request: web.Request, methods: frozenset[str]) -> web.Response:
        """The answer to OPTIONS: the route's methods, and the headers that a page may send."""
        allowed = ", ".join(sorted(methods | {"OPTIONS"}))
        headers = {"Allow": allowed, **self.headers(request)}
        if "Access-Control-Allow-Origin" in headers:
            headers["Access-Control-Allow-Methods"] = allowed
            wanted_headers = request.headers.get("Access-Control-Request-Headers", "")
            if wanted_headers and wanted_headers.isascii() and wanted_headers.isprintable():
                headers["Access-Control-Allow-Headers"] = wanted_headers
            headers["Access-Control-Max-Age"] = str(PREFLIGHT_SECONDS)
        return web.Response(status=200, headers=headers)

    def _is_own(self, host: str) -> bool:
        assert self.hosts is not None
        return LOOPBACK_HOST.fullmatch(host) is not None or host in self.hosts


def _host_of(request: web.Request) -> tuple[str, int | None]:
    """The name and port in the request's ``Host``."""
    try:
        parts = urlsplit(f"//{request.headers.get(hdrs.HOST, '')}")
        return (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return "", None


def _parts(origin: str) -> tuple[str, int | None] | None:
    """Host and port of an origin; None if it has none, as ``null``."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return None if not parts.hostname else (parts.hostname, port)
