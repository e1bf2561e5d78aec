"""Allowed addresses of outgoing requests: public ones, resolved once per connection."""

import errno
import ipaddress
import socket
from urllib.parse import urlsplit

from aiohttp import TCPConnector, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::/96"))
"""IPv6 networks whose addresses end with that of an IPv4 host."""
_LOCAL = (ipaddress.ip_network("64:ff9b:1::/48"), ipaddress.ip_network("fec0::/10"))
"""Private ones that not every Python knows as such."""


class AddressRefused(OSError):
    """The address is not allowed."""


def address_fault(url: str, *, private: bool) -> str | None:
    """Why requests to ``url`` are forbidden; None if its text is acceptable. ``private``: whether
    to allow private networks, loopback and plain http."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        host = URL(url).raw_host  # as the client reads it: its other digits are ASCII's
    except ValueError:
        return "delivery_address is no URL"
    allowed = ("https", "http") if private else ("https",)
    if parts.scheme not in allowed or not host:
        return f"delivery_address must be an {' or '.join(allowed)} URL"
    if parts.username is not None or parts.password is not None:
        return "delivery_address must not hold a password"
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        return None
    return None if private or is_public(str(literal)) else "delivery_address is not public"


def is_public(address: str) -> bool:
    """Whether an IP address is public, also in IPv6 notation."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if any(found in each for each in _LOCAL):
            return False
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and any(found in each for each in _TRANSLATED):
            inner = ipaddress.IPv4Address(found.packed[-4:])
        if inner is not None:
            found = inner
    return found.is_global and not found.is_multicast


def checked_connector(*, private: bool) -> TCPConnector:
    """A session's connections, limited to the addresses of ``PublicResolver``."""
    return TCPConnector(resolver=PublicResolver(private=private))


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses only; connections use the checked address."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises AddressRefused if any address of the name is private."""
        found = await self._inner.resolve(host, port, family)
        if not self._private:
            for each in found:
                if not is_public(each["host"]):
                    message = f"{host} is {each['host']}, which is not public"
                    raise AddressRefused(errno.EACCES, message)
        return found

    async def close(self) -> None:
        await self._inner.close()
