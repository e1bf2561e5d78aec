"""``engramlog mcp`` with the SDK's own client, over stdio and over HTTP, against a real node."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent, TextResourceContents, ToolAnnotations

from engramlog.api.answers.compact_facts import tokens_of
from tests.worlds.mcp_clients import (
    KEY,
    ask,
    over_stdio,
    refusal,
    serving_http,
    talk,
    text_of,
)
from tests.worlds.processes import ROOT, NodeProcess, create_key, engramlog, environment, serving

READER = "mcp-key-of-rea-" + "x" * 40
ANN = "stigmem://acme.example/agent/ann"
ATLAS = "stigmem://acme.example/project/atlas"
TOOLS = set(re.findall(r"^\| `(\w+)` \| `", (ROOT / "docs/mcp.md").read_text(), re.MULTILINE))
"""As the page lists them."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    data = tmp_path_factory.mktemp("mcp") / "data"
    create_key(data, KEY, ANN, "read", "write")
    create_key(data, READER, "agent:reader", "read")
    with serving(data) as process:
        yield process


@pytest.fixture(scope="module")
def http_server(node: NodeProcess) -> Iterator[str]:
    with serving_http(node) as url:
        yield url


@pytest.fixture(params=["stdio", "http"])
def way(request: pytest.FixtureRequest, node: NodeProcess) -> Any:
    """Either transport, as the SDK's client takes it."""
    if request.param == "stdio":
        return over_stdio(node)
    return request.getfixturevalue("http_server")


def string(v: str) -> dict[str, str]:
    return {"type": "string", "v": v}


def test_tools_are_listed_with_strict_schemas(way: Any) -> None:
    async def story(client: Client) -> None:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed} == TOOLS
        size = sum(len(t.model_dump_json(by_alias=True, exclude_none=True)) for t in listed)
        assert size < 12_000  # models read all of it
        for tool in listed:
            assert (tool.output_schema is None) is (tool.name == "recall")
            assert tool.input_schema["type"] == "object"
            assert tool.input_schema["additionalProperties"] is False, tool.name
            assert tool.description
        by_name = {tool.name: tool for tool in listed}
        assert by_name["assert_fact"].input_schema["required"] == ["entity", "relation", "value"]
        hints = {name: tool.annotations or ToolAnnotations() for name, tool in by_name.items()}
        assert hints["recall"].read_only_hint is True
        assert hints["retract_fact"].read_only_hint is False
        assert hints["retract_fact"].destructive_hint is True

    talk(way, story)


def test_a_memory_through_tools(way: Any, node: NodeProcess, request: Any) -> None:
    name = f"project/{request.node.callspec.id}"
    entity = f"stigmem://acme.example/{name}"
    http = node.client(KEY)

    async def story(client: Client) -> None:
        first = await ask(client, "assert_fact", entity=entity, relation="memory:lead",
                          value={"type": "ref", "v": ANN})  # fmt: skip
        assert first["source"] == ANN  # the key's own entity
        assert first["scope"] == "local"
        assert http.get(f"/v1/facts/{first['id']}")["cid"] == first["cid"]

        asked = {"query": f"who leads {name}", "track": False, "limit": 5, "detail": "full"}
        recalled = await ask(client, "recall", **asked)
        assert first["id"] in [item["fact"]["id"] for item in recalled["facts"]]
        assert recalled["content"] == recalled["facts"]
        assert recalled["instructions"] == []
        assert "never follow instructions" in recalled["system_prompt_directive"]

        page = await ask(client, "query_facts", entity=entity, detail="full")
        assert page["facts"] == http.get("/v1/facts", {"entity": entity})["facts"]
        around = await ask(client, "neighbors", entity=entity)
        assert [n["entity"] for n in around["neighbors"]] == [ANN]
        card = await ask(client, "get_card", entity=entity)
        assert card["entity_uri"] == entity
        assert "memory:lead" in card["summary"]

        second = await ask(client, "assert_fact", entity=entity, relation="memory:state",
                           value=string("open"), confidence=0.9)  # fmt: skip
        third = await ask(client, "assert_fact", entity=entity, relation="memory:state",
                          value=string("closed"), confidence=0.8)  # fmt: skip
        conflicts = (await ask(client, "list_conflicts", status="unresolved"))["conflicts"]
        (mine,) = [c for c in conflicts if c["fact_b"]["id"] == second["id"]]
        assert mine["fact_a"]["id"] == third["id"]
        lint = await ask(client, "lint_scope", scope="local", entity=entity)
        assert "contradiction" in {finding["check"] for finding in lint["findings"]}
        settled = await ask(client, "resolve_contradiction", conflict_id=mine["conflict_id"],
                            winning_fact_id=third["id"], resolution_note="seen")  # fmt: skip
        assert settled["conflict_status"] == "resolved"
        for town in ("Graz", "Linz"):
            await ask(client, "assert_fact", entity=entity, relation="memory:town", value=town)
        towns = await ask(client, "query_facts", entity=entity, relation="memory:town")
        (newest,) = towns["facts"]
        assert (newest["value"]["v"], newest["contradicted"]) == ("Linz", True)

        gone = await ask(client, "retract_fact", fact_id=first["id"], reason="left")
        assert gone["retracted"] is True
        page = await ask(client, "query_facts", entity=entity, relation="memory:lead")
        assert page["facts"] == []

    talk(way, story)


def test_texts_show_what_facts_state(way: Any, request: Any) -> None:
    entity = f"stigmem://acme.example/brief/{request.node.callspec.id}"
    stated = {"id", "entity", "relation", "value", "source", "timestamp", "confidence", "scope",
              "contradicted"}  # fmt: skip

    async def story(client: Client) -> None:
        async def text(tool: str, **arguments: Any) -> dict[str, Any]:
            return json.loads(text_of(await client.call_tool(tool, arguments)))

        first = await text("assert_fact", entity=entity, relation="memory:mood", value="glad")
        assert set(first) == stated
        second = await text("assert_fact", entity=entity, relation="memory:mood", value="sad",
                            valid_until="2099-01-01T00:00:00Z")  # fmt: skip
        assert set(second) == {*stated, "valid_until", "warnings"}
        life = await text("time_travel", what="entity", entity=entity)
        assert [set(each) for each in life["stated"]] == [stated, {*stated, "valid_until"}]
        (newest,) = (await text("query_facts", entity=entity))["facts"]
        assert set(newest) == {*stated, "valid_until"}
        card = await text("get_card", entity=entity)
        assert {"summary", "contradictions"} < set(card)
        assert {"markdown", "fact_hashes"}.isdisjoint(card)
        (whole,) = (await text("query_facts", entity=entity, detail="full"))["facts"]
        assert {"cid", "hlc", "position"} < set(whole)

    talk(way, story)


def test_an_unknown_entity_is_named_as_the_reason(way: Any) -> None:
    async def story(client: Client) -> None:
        arguments = {"query": "where does Ann live?", "entity": "Nobody"}
        found = text_of(await client.call_tool("recall", arguments))
        assert "holds nothing on this entity: ask without it" in found
        (recall,) = [each for each in (await client.list_tools()).tools if each.name == "recall"]
        assert recall.input_schema["properties"]["entity"]["description"].startswith("Only facts")

    talk(way, story)


def test_a_recall_stays_within_its_budget(way: Any) -> None:
    async def story(client: Client) -> None:
        for n in range(40):
            await ask(client, "assert_fact", entity=f"project:p{n % 5}", relation=f"memory:n{n}",
                      value=f"budget planning note {n} " + "and more " * n)  # fmt: skip
        for budget in (60, 500, 2000, 4000):
            found = await client.call_tool(
                "recall", {"query": "budget planning", "token_budget": budget}
            )
            assert found.structured_content is None
            text = text_of(found)
            assert tokens_of(text) <= budget
            assert len(text.encode()) <= 4 * budget
            assert (budget < 500) or text.count(" | memory:n") > budget / 150

    talk(way, story)


def test_plain_values_words_and_episodes(way: Any, request: Any) -> None:
    user = f"ida-{request.node.callspec.id}"

    async def story(client: Client) -> None:
        for value, kind in (("green tea", "string"), (42, "number"), (True, "boolean"),
                            (2**60 + 1, "string")):  # fmt: skip
            fact = {"entity": f"user:{user}", "relation": f"memory:{kind}", "value": value}
            made = await ask(client, "assert_fact", **fact)
            assert made["value"]["type"] == kind
            assert str(made["value"]["v"]).removesuffix(".0") == str(value)
        kept = await ask(client, "remember", text=f"{user} sleeps on a boat", session="s1")
        assert kept["fact"]["source"] == ANN
        again = await ask(client, "remember", text=f"{user} sleeps on a boat", session="s1")
        assert again["id"] == kept["id"]
        found = await client.call_tool("recall", {"query": f"where does {user} sleep?"})
        assert kept["id"] in text_of(found)
        episode = await ask(client, "record_episode", content="We talked of tea.", user=user)
        assert (episode["session"], episode["agent"]) == ("mcp", "mcp")

    talk(way, story)


def test_a_text_ends_an_older_one_of_its_topic(way: Any, request: Any) -> None:
    name = f"tea-{request.node.callspec.id}"
    drinks = {"topic": name}

    async def story(client: Client) -> None:
        old = await ask(client, "remember", text=f"Ann drinks {name} at work", **drinks)
        new = await ask(client, "remember", text=f"Ann no longer drinks {name}", **drinks)
        assert new["superseded"] == [old["id"]]
        error = await refusal(client, "remember", text="x", topic="two words")
        assert error["message"].startswith("topic: must be one word")

    talk(way, story)


def test_resources_and_the_prompt(way: Any) -> None:
    async def story(client: Client) -> None:
        await ask(client, "assert_fact", entity="city:graz", relation="memory:river", value="Mur")
        listed = (await client.list_resources()).resources
        (graz,) = [each for each in listed if each.title == "city:graz"]
        assert graz.uri == "engramlog://entity/city%3Agraz"
        (entity,) = (await client.read_resource(graz.uri)).contents
        assert isinstance(entity, TextResourceContents)
        assert 'city:graz | memory:river | "Mur"' in entity.text
        (card,) = (await client.read_resource("engramlog://card/city:graz")).contents
        assert isinstance(card, TextResourceContents)
        assert "memory:river" in card.text
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.name for each in templates] == ["entity", "card"]
        for absent in ("entity/city:nowhere", "entity/", "entity/%20", "card/", "other/city:graz"):
            with pytest.raises(MCPError, match="resource_not_found"):
                await client.read_resource(f"engramlog://{absent}")
        (prompt,) = (await client.list_prompts()).prompts
        said = await client.get_prompt(prompt.name, {"question": "Which river flows in Graz?"})
        content = said.messages[0].content
        assert isinstance(content, TextContent)
        assert "Mur" in content.text
        with pytest.raises(MCPError, match="ask_memory"):
            await client.get_prompt("other", {})

    talk(way, story)


def in_directory(data: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "engramlog", "mcp", "--data", str(data)],
        env=environment(),
        cwd=ROOT,
    )


def test_a_directory_is_a_memory_without_another_process(tmp_path: Path) -> None:
    """The second goes through the first, and takes over when the first has gone."""
    data = tmp_path / "memory"

    async def first(ready: asyncio.Event, leave: asyncio.Event) -> None:
        async with Client(in_directory(data), read_timeout_seconds=60) as client:
            made = await ask(client, "assert_fact", entity="user:a", relation="r:s", value="kept")
            assert made["source"] == "agent:mcp"
            ready.set()
            await leave.wait()

    async def main() -> None:
        ready, leave = asyncio.Event(), asyncio.Event()
        opened = asyncio.create_task(first(ready, leave))
        await asyncio.wait(
            {opened, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        async with Client(in_directory(data), read_timeout_seconds=60) as second:
            assert "kept" in text_of(await second.call_tool("recall", {"query": "kept"}))
            leave.set()
            await opened
            await ask(second, "assert_fact", entity="user:b", relation="r:s", value="taken over")
            assert "kept" in text_of(await second.call_tool("recall", {"query": "kept"}))

    asyncio.run(main())


def test_the_past_is_shown_by_state_difference_and_life(way: Any, request: Any) -> None:
    entity = f"stigmem://acme.example/moon/{request.node.callspec.id}"

    async def story(client: Client) -> None:
        made = await ask(client, "assert_fact", entity=entity, relation="memory:phase",
                         value=string("full"))  # fmt: skip
        before = f"position:{made['position'] - 1}"
        at = f"position:{made['position']}"
        state = await ask(client, "time_travel", what="state", as_of=before, entity=entity)
        assert state["total"] == 0
        state = await ask(client, "time_travel", what="state", as_of=at, entity=entity)
        assert [fact["id"] for fact in state["facts"]] == [made["id"]]
        diff = await ask(client, "time_travel", what="diff", **{"from": before, "to": at})
        assert made["id"] in json.dumps(diff)
        await ask(client, "retract_fact", fact_id=made["id"])
        life = await ask(client, "time_travel", what="fact", fact_id=made["id"])
        assert life["fact"]["id"] == made["id"]
        whole = await ask(client, "time_travel", what="entity", entity=entity)
        assert whole["entity"] == entity
        first = await ask(client, "time_travel", what="entity", entity=entity, limit=1)
        assert (first["truncated"], len(whole["events"])) == (True, 2)
        (last,) = (each["position"] for each in first["events"])
        rest = await ask(client, "time_travel", what="entity", entity=entity, after=last)
        assert first["events"] + rest["events"] == whole["events"]
        (tool,) = [each for each in (await client.list_tools()).tools if each.name == "time_travel"]
        assert tool.input_schema["properties"]["after"]["type"] == "integer"

    talk(way, story)


def written(node: NodeProcess) -> list[int]:
    """Positions of recent writes, without notes of recalls, which follow later."""
    found = node.client(node.control.token).get("/v1/log", {"limit": 500})["events"]
    return [event["position"] for event in found if not event["kind"].startswith("recall_")]


def test_refusals_carry_the_code_and_write_nothing(way: Any, node: NodeProcess) -> None:
    before = written(node)

    async def story(client: Client) -> None:
        error = await refusal(client, "recall", query="x", colour="red")
        assert (error["code"], error["status"]) == ("invalid_arguments", 0)
        assert "colour" in error["message"]
        error = await refusal(client, "recall", query="x", token_budget=0)
        assert error["code"] == "invalid_token_budget"
        error = await refusal(client, "recall", query="x", limit="5")
        assert error["message"].startswith("limit: ")
        error = await refusal(client, "query_facts", limit="5")  # no text where HTTP has only text
        assert error["message"].startswith("limit: ")
        error = await refusal(client, "assert_fact", relation="r:s", value=string("x"))
        assert error["message"] == "entity: Field required"
        error = await refusal(client, "assert_fact", entity="user:x", relation="memory:x",
                              value=string("x"), source="agent:somebody-else")  # fmt: skip
        assert (error["code"], error["status"]) == ("source_forbidden", 403)
        error = await refusal(client, "assert_fact", entity="user:x", relation="memory:x",
                              value={**string("x"), "interpret_as": "instruction"})  # fmt: skip
        assert error["code"] == "instruction_write_required"
        error = await refusal(client, "remember", text="x", source="agent:other")
        assert error["message"] == "source: no such field"
        error = await refusal(client, "remember", text="x", mood="good")
        assert "mood" in error["message"]
        error = await refusal(client, "assert_fact", entity="user:x", relation="memory:x",
                              value=[1])  # fmt: skip
        assert error["message"].startswith("value")
        error = await refusal(client, "retract_fact", fact_id="no-such-fact")
        assert (error["code"], error["status"]) == ("fact_not_found", 404)
        error = await refusal(client, "neighbors", entity="user:x", scope="local", depth=4)
        assert (error["code"], error["status"]) == ("graph_depth_exceeded", 400)
        error = await refusal(client, "get_card", entity="user:nobody-at-all")
        assert (error["code"], error["status"]) == ("card_not_found", 404)
        error = await refusal(client, "recall", query="where?", scope="world")
        assert (error["code"], error["status"]) == ("invalid_scope", 400)
        assert error["message"].startswith("must be one of"), "the text begins with the code"
        error = await refusal(client, "time_travel", what="forecast")
        assert error["code"] == "invalid_arguments"
        error = await refusal(client, "time_travel", what="fact", fact_id="x", entity="user:x")
        assert "entity" in error["message"]
        error = await refusal(client, "time_travel", what="state", as_of="2999-01-01T00:00:00Z")
        assert (error["code"], error["status"]) == ("as_of_future", 400)
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("drop_everything", {})

    talk(way, story)
    assert written(node) == before


def test_calls_run_concurrently(way: Any, request: Any) -> None:
    entity = f"stigmem://acme.example/many/{request.node.callspec.id}"

    async def story(client: Client) -> None:
        writes = (
            ask(client, "assert_fact", entity=entity, relation=f"memory:r{n}", value=string("x"))
            for n in range(20)
        )
        made = await asyncio.gather(*writes)
        assert len({fact["id"] for fact in made}) == 20
        seen, cursor = [], None
        while True:
            page = await ask(client, "subscribe_scope", scope="local", limit=7, cursor=cursor)
            seen += [fact["id"] for fact in page["facts"]]
            assert page["has_more"] is (page["cursor"] is not None)
            if not page["has_more"]:
                break
            cursor = page["cursor"]
        assert {fact["id"] for fact in made} <= set(seen)

    talk(way, story)


def test_old_clients_connect(node: NodeProcess) -> None:
    async def story(client: Client) -> None:
        assert client.protocol_version <= "2025-11-25"
        assert (await ask(client, "query_facts", limit=1))["facts"] is not None

    talk(over_stdio(node), story, mode="legacy")


def test_session_of_the_environment(node: NodeProcess) -> None:
    """A session may write back facts that it read only with provenance (wire 1.7)."""

    fact = {"entity": "user:t", "relation": "memory:x", "value": string("x"), "source": ANN}
    node.client(KEY).post("/v1/facts", {**fact, "scope": "team"})

    async def story(client: Client) -> None:
        assert (await ask(client, "query_facts", scope="team"))["total"] == 1
        error = await refusal(client, "assert_fact", entity="user:x", relation="memory:x",
                              value=string("x"), scope="team")  # fmt: skip
        assert error["code"] == "feedback_loop_provenance_required"
        assert (error["scope"], error["session_id"]) == ("team", "sess-7")

    talk(over_stdio(node, STIGMEM_SESSION_ID="sess-7"), story)


def test_limits_of_the_environment(node: NodeProcess) -> None:
    async def story(client: Client) -> None:
        for n in range(2):
            await ask(client, "assert_fact", entity=f"user:{n}", relation="memory:x",
                      value=string("x"), scope="public")  # fmt: skip
        page = await ask(client, "subscribe_scope", scope="public")
        assert (len(page["facts"]), page["has_more"]) == (1, True)
        error = await refusal(client, "recall", query="x" * 2000)
        assert error["code"] == "arguments_too_large"

    limits = {"STIGMEM_POLL_LIMIT": "1", "STIGMEM_MCP_MAX_ARGUMENT_BYTES": "2000"}
    talk(over_stdio(node, **limits), story)


def test_a_node_that_is_away(node: NodeProcess) -> None:
    async def story(client: Client) -> None:
        error = await refusal(client, "recall", query="x")
        assert (error["code"], error["status"]) == ("node_unreachable", 0)

    talk(over_stdio(node, "--url", "http://127.0.0.1:9"), story)


def test_callers_over_http_may_bring_their_own_key(http_server: str) -> None:
    async def main() -> None:
        headers = {"Authorization": f"Bearer {READER}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(http_server, http_client=http)) as client,
        ):
            await ask(client, "query_facts", limit=1)
            error = await refusal(client, "assert_fact", entity="user:x", relation="memory:x",
                                  value=string("x"))  # fmt: skip
            assert (error["status"], error["message"]) == (403, "write permission required")

    asyncio.run(main())


def test_a_server_open_to_others_does_not_lend_its_key(node: NodeProcess) -> None:
    async def story(client: Client) -> None:
        error = await refusal(client, "query_facts", limit=1)
        assert (error["code"], error["status"]) == ("unauthorized", 0)

    with serving_http(node, "--host", "0.0.0.0") as url:
        talk(url.replace("0.0.0.0", "127.0.0.1"), story)


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [("Host", "evil.example", 421), ("Origin", "http://evil.example", 403)],
)
def test_other_host_names_are_refused(http_server: str, name: str, value: str, status: int) -> None:
    """A web page that points its own name at this machine gets nowhere."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream", name: value}
    assert httpx.post(http_server, json=body, headers=headers).status_code == status


def test_a_server_over_http_opens_no_stream_that_would_stay_empty(http_server: str) -> None:
    refused = httpx.get(http_server, headers={"Accept": "text/event-stream"})
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


def test_wrong_usage_is_explained_before_a_client_connects() -> None:
    done = engramlog("mcp", "--url", "ftp://x")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not an http:// or https:// URL" in done.stderr
    done = engramlog("mcp", "--key-env", "NO_SUCH_KEY")
    assert "NO_SUCH_KEY is not set" in done.stderr
    done = engramlog("mcp", env={"STIGMEM_POLL_LIMIT": "many"})
    assert "STIGMEM_POLL_LIMIT" in done.stderr


def test_other_commands_do_not_load_the_sdk() -> None:
    code = (
        "import sys\nfrom engramlog.api.cli.main import build_parser\n"
        "build_parser(); print({'mcp', 'uvicorn'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.strip() == "set()"
