"""A small blocking HTTP client for the command line: JSON in, JSON out, one connection.

It calls a node by URL, with a key if the node needs one. Failures of either side become
``ClientError`` with an actionable sentence.
"""

import http.client
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from engramlog.api.client.expected_answers import missing
from engramlog.api.http.error_codes import CODE_HEADER

TIMEOUT_SECONDS = 30.0
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}

_Shape = TypeVar("_Shape")


class ClientError(Exception):
    """A request failed.

    Attributes: status: the HTTP status, 0 without an answer.
        code: the node's stable error code, if any.
        answer: the answer's JSON, unchanged.
    """

    def __init__(
        self, message: str, status: int = 0, code: str = "", answer: object = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.answer = answer


class AnswerFields(dict[str, Any]):
    """An answer's JSON object. A field that it lacks is a ClientError: the URL is not a node's."""

    place = ""

    @classmethod
    def of(cls, place: str, fields: dict[str, Any]) -> Self:
        answer = cls(fields)
        answer.place = place
        return answer

    def __missing__(self, name: str) -> NoReturn:
        raise ClientError(f"{self.place} did not answer as a node: there is no {name!r}")

    def shaped(self, shape: type[_Shape], **more: object) -> _Shape:
        """The answer and ``more`` as a struct; its ``record`` is the answer. Raises ClientError."""
        try:
            return msgspec.convert({**self, **more, "record": self}, shape)
        except msgspec.ValidationError as fault:
            raise ClientError(f"{self.place} did not answer as a node: {fault}") from fault


def decoded_answer(place: str, status: int, content: bytes, *, listed: bool = False) -> Any:
    """An answer from its bytes: an object, or with ``listed`` a list of objects; ``place``: its
    URL. Raises ClientError."""
    try:
        if listed:
            rows = msgspec.json.decode(content, type=list[dict[str, Any]])
            return [AnswerFields.of(place, row) for row in rows]
        return AnswerFields.of(place, msgspec.json.decode(content, type=dict[str, Any]))
    except msgspec.ValidationError as fault:
        raise ClientError(f"{place} did not answer as a node: {fault}", status) from fault
    except ValueError as fault:
        raise ClientError(f"{place} did not answer with JSON", status) from fault


class Client:
    """Requests to one node. For one thread at a time."""

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _CONNECTIONS or not parts.hostname:
            raise ClientError(f"{url!r} is not an http:// or https:// URL")
        self.url = url.rstrip("/")
        self._base = parts.path.rstrip("/")
        self._connection = _CONNECTIONS[parts.scheme](
            parts.hostname, parts.port, timeout=TIMEOUT_SECONDS
        )
        self._headers = {"Accept": "application/json"}
        if key:
            self._headers["Authorization"] = bearer(key)

    def get(
        self, path: str, query: Mapping[str, object] | None = None, *, listed: bool = False
    ) -> Any:
        """The JSON answer of a GET. Raises ClientError."""
        return self.request("GET", path, query=query, listed=listed)

    def post(
        self, path: str, body: object = None, query: Mapping[str, object] | None = None
    ) -> Any:
        """The JSON answer of a POST. Raises ClientError."""
        return self.request("POST", path, body=body, query=query)

    def delete(self, path: str) -> Any:
        """The JSON answer of a DELETE, None if it has no body. Raises ClientError."""
        return self.request("DELETE", path)

    def pages(self, path: str, query: Mapping[str, object]) -> Iterator[dict[str, Any]]:
        """The pages of a list, each as it is wanted. Raises ClientError."""
        cursor: object = None
        while True:
            page = self.get(path, {**query, "cursor": cursor})
            yield page
            cursor = page.get("cursor")
            if not cursor:
                return

    def items(
        self, path: str, name: str, query: Mapping[str, object], most: int, page_max: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Up to ``most`` items of a list with pages of at most ``page_max``, and the last page;
        ``name``: of the items in a page. Raises ClientError."""
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {}
        for page in self.pages(path, {**query, "limit": min(most, page_max)}):
            found += page[name]
            if len(found) >= most:
                break
        return found[:most], page

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        listed: bool = False,
    ) -> Any:
        """One request; ``raw`` is sent unchanged, ``body`` as JSON; ``headers`` on top of the
        client's own; ``listed``: the answer is a list. Raises ClientError."""
        data = raw if raw is not None or body is None else json_of(body)
        status, answer = self._exchange(method, self._target(path, query), data, headers or {})
        place = f"{self.url}{path}"
        decoded = decoded_answer(place, status, answer, listed=listed) if answer else None
        lacking = missing(method, path, decoded)
        if lacking is not None:
            raise ClientError(f"{place} did not answer as a node: {lacking}", status)
        return decoded

    def fetch(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
    ) -> bytes:
        """The bytes of an answer that is not JSON. Raises ClientError."""
        data = None if body is None else json_of(body)
        return self._exchange(method, self._target(path, query), data, {})[1]

    def lines(self, path: str, query: Mapping[str, object] | None = None) -> Iterator[bytes]:
        """The lines of an answer of any length, each with its end. Raises ClientError, also if the
        answer breaks off."""
        try:
            self._connection.request("GET", self._target(path, query), None, self._headers)
            response = self._connection.getresponse()
            if response.status >= 400:
                raise self._failure(response, response.read())
            while line := response.readline():
                if not line.endswith(b"\n"):
                    raise ClientError(f"the answer of {self.url} broke off")
                yield line
        except (OSError, http.client.HTTPException) as fault:
            self._connection.close()
            raise ClientError(f"cannot read on from {self.url}: {fault}") from fault

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _failure(self, response: http.client.HTTPResponse, answer: bytes) -> ClientError:
        status, code = response.status, response.getheader(CODE_HEADER, "")
        try:
            return failure_of(status, msgspec.json.decode(answer), code)
        except ValueError:
            return ClientError(f"{self.url} answered {status}", status, code)

    def _target(self, path: str, query: Mapping[str, object] | None) -> str:
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        return self._base + path + query_text(given)

    def _exchange(
        self, method: str, target: str, data: bytes | None, more: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """The status and the body of an answer that is no failure. Raises ClientError."""
        headers = {**self._headers, **more}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(method, target, data, headers)
            response = self._connection.getresponse()
            answer = response.read()
        except TimeoutError as fault:
            self._connection.close()
            raise ClientError(f"{self.url} did not answer in time") from fault
        except (OSError, http.client.HTTPException) as fault:
            self._connection.close()
            raise ClientError(f"cannot reach {self.url}: {fault}") from fault
        if response.status >= 400:
            raise self._failure(response, answer)
        return response.status, answer


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def bearer(key: str) -> str:
    """The header of a key, perhaps one with the line end of its file. Raises ClientError, which
    does not repeat the key: it is no single line of ASCII."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ClientError("the API key has a character that no key has, such as a line break")
    return f"Bearer {key}"


def json_of(body: object) -> bytes:
    """A request's body. Raises ClientError for a text that is not Unicode."""
    with _only_unicode():
        return msgspec.json.encode(body)


def query_text(given: Mapping[str, object]) -> str:
    """A query string with its ``?``, if anything is given. Raises ClientError if not Unicode."""
    with _only_unicode():
        return "?" + urlencode(given) if given else ""


def path_segment(text: str, safe: str = ":/") -> str:
    """A URI or id as part of a path. Raises ClientError for a text that is empty or not Unicode."""
    if not text:
        raise ClientError("a name or id is empty")
    with _only_unicode():
        return quote(text, safe=safe)


@contextmanager
def _only_unicode() -> Generator[None]:
    try:
        yield
    except UnicodeEncodeError as fault:
        message = f"a text is not Unicode: it holds {fault.object[fault.start]!r}"
        raise ClientError(message, 400, "malformed_json") from fault


def failure_of(status: int, body: Any, code: str = "") -> ClientError:
    """The error of an answer in one line, from any of the protocol's shapes; ``code``: of its
    header, for those without one in the body."""
    found: Any = _shaped(body, _Failure).detail
    entries, detail = _shaped(found, list[Any]), _shaped(found, dict[str, Any])
    own = str(detail.get("code", ""))
    if entries:
        message = "; ".join(_entry(item) for item in entries)
    else:
        message = str(detail.get("message", own or found))
    return ClientError(message, status, own or code, body)


class _Failure(Struct):
    detail: Any = "no reason given"


def _shaped(value: object, shape: type[_Shape]) -> _Shape:
    """``value`` as ``shape``; the shape's default if it does not match."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return shape()


def _entry(item: Any) -> str:
    place = ".".join(str(part) for part in item.get("loc", ())[1:])
    return f"{place}: {item.get('msg', '')}" if place else str(item.get("msg", item))
