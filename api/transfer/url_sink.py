"""Import lines into a node by its URL."""

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from engramlog.api.client.client import Client, ClientError, failure_of
from engramlog.api.transfer.importing import RefusedLine, Result, SinkError, Written
from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.facts import (
    AssertLine,
    DenyLine,
    RetractLine,
    stated_fact,
)
from engramlog.api.transfer.lines.key_translation import NamedByKey
from engramlog.api.transfer.lines.line_kinds import AnyLine
from engramlog.api.transfer.lines.memories import EpisodeLine

_REFUSED = "a URL takes facts, retractions by id and episodes; this line needs --data"
_Live: TypeAlias = dict[tuple[str, str | None, str | None], list[str]]


class _BatchAnswer(msgspec.Struct):
    results: list[dict[str, Any]]


class UrlSink:
    """Lines into any node, over its public routes and with the caller's own rights.

    Facts and retractions go in batches, episodes singly.
    """

    acts_on_rules = False

    def __init__(self, client: Client) -> None:
        self._client = client
        self._live: dict[tuple[str, ...], _Live] = {}

    def write(
        self, lines: Sequence[AnyLine], *, received_at: Sequence[int] | None, atomic: bool
    ) -> list[Result]:
        if received_at is not None:
            raise SinkError("a running node sets its own receipt times")
        results: list[Result] = []
        try:
            for together, run in groupby(lines, _goes_in_batch):
                some = list(run)
                results += self._batch(some, atomic) if together else self._one_by_one(some, atomic)
                if atomic and any(not isinstance(result, Written) for result in results):
                    break
        except ClientError as fault:
            raise SinkError(str(fault)) from fault
        return results + [None] * (len(lines) - len(results))

    def find(self, cid: str, back: int = 1) -> str | None:
        """The id of the newest fact with this content id: no route finds older ones."""
        if back > 1:
            return None
        try:
            return str(self._client.get(f"/v1/facts/{quote(cid, safe=':')}")["id"])
        except ClientError as fault:
            if fault.status == 404:
                return None
            raise SinkError(str(fault)) from fault

    def find_live(self, lines: Sequence[AssertLine]) -> list[list[str]]:
        """Of the facts that their sources had stated of their keys before this import."""
        return [self._known(line) for line in lines]

    def _known(self, line: AssertLine) -> list[str]:
        try:
            wanted = stated_fact(line, sys.maxsize)
        except LineError:  # the write tells
            return []
        key = {
            "entity": wanted.entity,
            "relation": wanted.relation,
            "source": wanted.source,
            "scope": wanted.scope,
        }
        known = self._live.get(tuple(key.values()))
        if known is None:
            known = self._live[tuple(key.values())] = self._live_of(key)
        return known.get((wanted.cid, wanted.valid_from, wanted.valid_until), [])

    def _live_of(self, key: dict[str, str]) -> _Live:
        """Ids by content id and validity, oldest first."""
        every = {"include_expired": True, "include_contradicted": True, "include_low_trust": True}
        found: _Live = {}
        try:
            for page in self._client.pages("/v1/facts", {**key, **every, "limit": 500}):
                for fact in page["facts"]:
                    if fact["received_from"] is None and fact["garden_id"] is None:
                        content = fact["cid"], fact["valid_from"], fact["valid_until"]
                        found.setdefault(content, []).insert(0, str(fact["id"]))
        except ClientError as fault:
            raise SinkError(str(fault)) from fault
        return found

    def find_episode(self, line: EpisodeLine) -> NamedByKey | None:
        """The episode that a line recorded; without an ``id`` it cannot be found."""
        if line.id is None:
            return None
        try:
            found = self._client.get(f"/v1/episodes/{quote(line.id, safe='')}")
        except ClientError as fault:
            if fault.status == 404:
                return None
            raise SinkError(str(fault)) from fault
        return NamedByKey(found["key"], found["hash"], found["id"])

    def _one_by_one(self, lines: Sequence[AnyLine], atomic: bool) -> list[Result]:
        results: list[Result] = []
        for line in lines:
            results.append(self._alone(line))
            if atomic and not isinstance(results[-1], Written):
                return results + [None] * (len(lines) - len(results))
        return results

    def _alone(self, line: AnyLine) -> Result:
        """Send a line that goes in no batch; the node's refusal becomes the line's error."""
        if isinstance(line, DenyLine) or (isinstance(line, RetractLine) and line.match is None):
            return Written("existing")  # its record did all that the node allows
        if not isinstance(line, EpisodeLine):
            return RefusedLine(_REFUSED, "op")
        try:
            return self._episode(line)
        except ClientError as fault:
            if not 400 <= fault.status < 500 or fault.status == 401:
                raise
            return RefusedLine(str(fault))

    def _episode(self, line: EpisodeLine) -> Written:
        body: dict[str, Any] = msgspec.to_builtins(line)
        own = ("op", "key", "recorded_at", "recorded_by")
        made = self._client.post(
            "/v1/episodes", {name: body[name] for name in body if name not in own}
        )
        return Written("recorded", made["key"], made["position"], hash=made["hash"])

    def _batch(self, lines: Sequence[AnyLine], atomic: bool) -> list[Result]:
        answers = self._answers([_item(line) for line in lines], atomic)
        return [_batch_result(*each) for each in zip(lines, answers, strict=True)]

    def _answers(self, items: list[dict[str, Any]], atomic: bool) -> list[dict[str, Any]]:
        """The batch route's answer for each item, even if it refused the whole batch."""
        try:
            answer: Any = self._client.post("/v1/facts/batch", items, {"atomic": atomic})
        except ClientError as fault:
            if fault.status != 422 or fault.code != "atomic_batch_refused":
                raise
            answer = fault.answer
        try:
            return msgspec.convert(answer, _BatchAnswer).results
        except msgspec.ValidationError as fault:
            raise SinkError(f"not the answer of a batch: {fault}") from fault


def _goes_in_batch(line: AnyLine) -> bool:
    """Facts, and retractions by id."""
    if isinstance(line, RetractLine):
        return line.match is None and not line.marker
    return isinstance(line, AssertLine)


def _item(line: AnyLine) -> dict[str, Any]:
    """A line in the form of the batch route."""
    if isinstance(line, RetractLine):
        return {"op": "retract", "id": line.id, "reason": line.reason}
    item: dict[str, Any] = msgspec.to_builtins(line)
    own = ("key", "recorded_at", "alone")
    return {name: item[name] for name in item if name not in own}


def _batch_result(line: AnyLine, answer: dict[str, Any]) -> Result:
    if answer["status"] < 300:
        status = "retracted" if isinstance(line, RetractLine) else "asserted"
        return Written(status, answer["id"], answer["position"])
    detail: Any = answer.get("error", {}).get("detail", answer)
    if isinstance(detail, dict) and detail.get("code") == "not_written":  # pyright: ignore[reportUnknownMemberType]
        return None
    fault = failure_of(answer["status"], {"detail": detail})
    return RefusedLine(str(fault))
