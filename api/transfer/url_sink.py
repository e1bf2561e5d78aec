"""Import lines into a node by its URL."""

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from engramlog.api.client.client import Client, ClientError, failure_of
from engramlog.api.schemas.attributes import AttributesPatch
from engramlog.api.transfer.importing import RefusedLine, Result, SinkError, Written
from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.facts import (
    AssertLine,
    AttributesLine,
    ContentMatch,
    DenyLine,
    LineValue,
    RetractLine,
    stated_attributes_of,
    stated_fact,
    stated_instant,
    stored_value,
)
from engramlog.api.transfer.lines.key_translation import NamedByKey
from engramlog.api.transfer.lines.line_kinds import AnyLine, ResolveLine
from engramlog.api.transfer.lines.memories import DeltasLine, EpisodeLine, RunLine, SummaryLine
from engramlog.api.transfer.lines.payload_lines import PayloadLine
from engramlog.eventlog.kinds import (
    AliasSet,
    ConsolidationRuleSet,
    DeltaRejected,
    EpisodeAccessed,
    FactFeedback,
)

_LOCAL = "needs --data on the node's own machine: {}"
"""Why a line is refused here."""
_REFUSED: dict[type, str] = {
    EpisodeAccessed: "episode accesses cannot go by URL",
    DeltasLine: "deltas cannot go by URL: a rule would make them again",
    DeltaRejected: "deltas cannot go by URL: a rule would make them again",
    RunLine: "the progress of rules cannot go by URL",
    SummaryLine: "summaries are recorded here as separate files",
}


_Live: TypeAlias = dict[tuple[str, str | None, str | None], list[str]]


class _BatchAnswer(msgspec.Struct):
    results: list[dict[str, Any]]


class UrlSink:
    """Lines into any node, over its public routes and with the caller's own rights.

    Facts and retractions go in batches, all other lines singly. Refuses lines that a node takes
    only from its own machine: see ``_LOCAL``.
    """

    acts_on_rules = True

    def __init__(self, client: Client) -> None:
        self._client = client
        self._live: dict[tuple[str, ...], _Live] = {}

    def write(
        self, lines: Sequence[AnyLine], *, received_at: Sequence[int] | None, atomic: bool
    ) -> list[Result]:
        if received_at is not None:
            raise SinkError("a running node sets its own receipt times")
        results: list[Result] = []
        for together, run in groupby(lines, _goes_in_batch):
            some = list(run)
            results += self._batch(some, atomic) if together else self._one_by_one(some, atomic)
            if atomic and any(not isinstance(result, Written) for result in results):
                break
        return results + [None] * (len(lines) - len(results))

    def find(self, cid: str, back: int = 1) -> str | None:
        """The id of the newest fact with this content id: no route finds older ones."""
        found = None if back > 1 else self._found(f"/v1/facts/{quote(cid, safe=':')}")
        return None if found is None else str(found["id"])

    def find_known(self, lines: Sequence[AssertLine]) -> list[list[str]]:
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
        for page in self._client.pages("/v1/facts", {**key, **every, "limit": 500}):
            for fact in page["facts"]:
                if fact["received_from"] is None and fact["garden_id"] is None:
                    content = fact["cid"], fact["valid_from"], fact["valid_until"]
                    found.setdefault(content, []).insert(0, str(fact["id"]))
        return found

    def find_episode(self, line: EpisodeLine) -> NamedByKey | None:
        """The episode that a line recorded; without an ``id`` it cannot be found."""
        found = None if line.id is None else self._found(f"/v1/episodes/{quote(line.id, safe='')}")
        return None if found is None else NamedByKey(found["key"], found["hash"], found["id"])

    def _found(self, path: str) -> Any:
        """What a route shows, None if it finds nothing."""
        try:
            return self._client.get(path)
        except ClientError as fault:
            if fault.status == 404:
                return None
            raise

    def _one_by_one(self, lines: Sequence[AnyLine], atomic: bool) -> list[Result]:
        results: list[Result] = []
        for line in lines:
            results.append(self._alone(line))
            if atomic and not isinstance(results[-1], Written):
                return results + [None] * (len(lines) - len(results))
        return results

    def _alone(self, line: AnyLine) -> Result:
        """Send a line over its own route; the node's refusal becomes the line's error."""
        content = line.payload if isinstance(line, PayloadLine) else line
        try:
            match content:
                case ResolveLine():
                    return self._resolve(content)
                case EpisodeLine():
                    return self._episode(content)
                case ConsolidationRuleSet():
                    return self._rule(content)
                case AliasSet():
                    return self._alias(content)
                case FactFeedback():
                    body = {"cited": content.cited, "rejected": content.rejected}
                    self._client.post("/v1/recall/feedback", body)
                    return Written("declared")
                case AttributesLine():
                    return self._attributes(content)
                case RetractLine(match=ContentMatch() as match, marker=None):
                    return self._retract(self._matching(match), content.reason)
                case RetractLine() | DenyLine():
                    return Written("existing")  # its record did all that the node allows
                case _:
                    why = _REFUSED.get(type(content), "only the operator may declare it")
                    return RefusedLine(_LOCAL.format(why), "op")
        except ClientError as fault:
            if not 400 <= fault.status < 500 or fault.status == 401:
                raise
            return RefusedLine(str(fault))
        except LineError as fault:
            return RefusedLine(fault.message, fault.field)

    def _retract(self, fact_id: str, reason: str) -> Written:
        path = f"/v1/facts/{quote(fact_id, safe=':')}/retract"
        made = self._client.post(path, {"reason": reason})
        return Written("retracted", fact_id, made["position"])

    def _episode(self, line: EpisodeLine) -> Written:
        body: dict[str, Any] = msgspec.to_builtins(line)
        own = ("op", "key", "recorded_at", "recorded_by")
        made = self._client.post(
            "/v1/episodes", {name: body[name] for name in body if name not in own}
        )
        return Written("recorded", made["key"], made["position"], hash=made["hash"])

    def _rule(self, rule: ConsolidationRuleSet) -> Written:
        path = f"/v1/consolidation/rules/{quote(rule.rule_id, safe='')}"
        if rule.document is None:
            self._client.request("DELETE", path)
        else:
            self._client.request("PUT", path, body={"id": rule.rule_id, **rule.document})
        return Written("declared")

    def _attributes(self, line: AttributesLine) -> Written:
        """Set all attributes from here on."""
        attributes = stated_attributes_of(line.attributes)
        whole = msgspec.structs.asdict(attributes)
        # Permanent attributes appear only if they are not the default.
        stated: dict[str, Any] = msgspec.to_builtins(
            {name: whole[name] for name in whole if name in AttributesPatch.model_fields}
            | msgspec.to_builtins(attributes)
        )
        path = f"/v1/facts/{quote(line.id or '', safe='')}/attributes"
        self._client.request("PATCH", path, body=stated)
        return Written("declared")

    def _alias(self, alias: AliasSet) -> Written:
        name = alias.raw_uri
        if alias.canonical_uri is None:
            self._client.request("DELETE", f"/v1/aliases/{quote(name, safe=':')}")
        else:
            body = {"raw_uri": name, "canonical_uri": alias.canonical_uri, "kind": alias.alias_kind}
            self._client.post("/v1/aliases", body)
        return Written("declared")

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

    def _matching(self, match: ContentMatch) -> str:
        """The id of the one live fact with this content. Raises LineError."""
        query = {
            "entity": match.entity,
            "relation": match.relation,
            "scope": match.scope,
            "source": match.source,
            "garden_id": match.garden_id,
            "include_expired": True,
            "include_contradicted": True,
            "limit": 500,
        }
        wanted = stored_value(match.value, "match.value")
        valid = (
            stated_instant(match.valid_from, "match.valid_from"),
            stated_instant(match.valid_until, "match.valid_until"),
        )
        found = [
            str(fact["id"])
            for fact in self._client.get("/v1/facts", query)["facts"]
            if (match.garden_id is not None or fact.get("garden_id") is None)
            and _stored_value_of(fact) == (wanted.type, wanted.v)
            and (fact.get("valid_from"), fact.get("valid_until")) == valid
        ]
        if len(found) == 1:
            return found[0]
        raise LineError("more than one live fact matches" if found else "no live fact matches",
                        "match")  # fmt: skip

    def _resolve(self, line: ResolveLine) -> Result:
        sides = {line.winner, line.loser}
        for conflict in self._conflicts("unresolved"):
            if {conflict["fact_a"]["id"], conflict["fact_b"]["id"]} == sides:
                return self._settle(str(conflict["conflict_id"]), line)
        return RefusedLine("these facts have no open conflict", "winner")

    def _conflicts(self, status: str) -> Iterator[dict[str, Any]]:
        for page in self._client.pages("/v1/conflicts", {"status": status, "limit": 500}):
            yield from page["conflicts"]

    def _settle(self, conflict_id: str, line: ResolveLine) -> Written:
        body: dict[str, Any] = {"winning_fact_id": line.winner, "resolution_note": line.note}
        if line.states is not None:
            value = msgspec.to_builtins(line.states.value)
            body = {"new_value": value, "resolution_note": line.note}
        path = f"/v1/conflicts/{quote(conflict_id, safe=':')}/resolve"
        note = self._client.post(path, body).get("resolution_fact_id")
        key = None if line.states is None else line.states.key
        if key is None:
            return Written("resolved", note)
        ids = [
            str(each["winning_fact_id"])
            for each in self._conflicts("resolved")
            if each["conflict_id"] == conflict_id
        ]
        return Written("resolved", note, facts={key: ids[0]} if ids else {})


def _goes_in_batch(line: AnyLine) -> bool:
    """Facts, and retractions by id. A match may mean a fact of the lines before it."""
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


def _stored_value_of(fact: dict[str, Any]) -> tuple[str, str]:
    value = stored_value(LineValue(fact["value"]["type"], fact["value"].get("v")), "value")
    return value.type, value.v


def _batch_result(line: AnyLine, answer: dict[str, Any]) -> Result:
    if answer["status"] < 300:
        status = "retracted" if isinstance(line, RetractLine) else "asserted"
        return Written(status, answer["id"], answer["position"])
    detail: Any = answer.get("error", {}).get("detail", answer)
    if isinstance(detail, dict) and detail.get("code") == "not_written":  # pyright: ignore[reportUnknownMemberType]
        return None
    fault = failure_of(answer["status"], {"detail": detail})
    return RefusedLine(str(fault))
