"""Adapters with the real libraries, which `make test` installs; without one, what to install."""

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engramlog import ClientError, Memory, Ref
from engramlog.api.python.node_requests import NodeRequests
from tests.api.console.browser import REQUIRED
from tests.worlds.live import LiveNode

FRAMEWORKS = {
    "langgraph": "langgraph.store.base",
    "langchain": "langchain_core",
    "llamaindex": "llama_index.core",
    "openai_agents": "agents",
}


def adapter(name: str) -> Any:
    """The adapter of a framework; skips the test without the framework."""
    if not REQUIRED:
        pytest.importorskip(FRAMEWORKS[name])
    return importlib.import_module(f"engramlog.{name}")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIGMEM_EMBED_ENABLED", "false")
        with Memory(tmp_path_factory.mktemp("adapters") / "memory") as opened:
            opened.remember("Alice moved to Graz", user="alice")
            opened.assert_fact("user:alice", "works-at", Ref("company:acme"), user="alice")
            opened.remember("the safe opens with 4711", user="bob")
            yield opened


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_without_its_framework_an_adapter_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = FRAMEWORKS[name]
    loaded = (f"engramlog.{name}", "engramlog.api.python.adapters.", f"{framework}.")
    for module in [*sys.modules]:
        if module.startswith(loaded):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ImportError, match=r"is not installed: pip install engramlog\["):
        importlib.import_module(f"engramlog.{name}")


def test_langchain_gets_documents(memory: Memory) -> None:
    retriever = adapter("langchain").EngramlogRetriever(memory=memory, user="alice", k=2)
    (first, second) = retriever.invoke("where did Alice move?")
    assert first.page_content == "Alice moved to Graz"
    assert second.page_content == "alice —[works-at]→ acme"
    assert (first.metadata["source"], first.id) == ("user:alice", first.metadata["id"])
    awaited = asyncio.run(retriever.ainvoke("where did Alice move?"))
    assert [each.id for each in awaited] == [first.id, second.id]
    past = memory.as_of(1)
    assert adapter("langchain").EngramlogRetriever(memory=past).invoke("Alice") == []


def test_langchain_takes_options_of_one_question_and_no_unknown_ones(memory: Memory) -> None:
    make = adapter("langchain").EngramlogRetriever
    retriever = make(memory=memory, user="alice")
    question = "where did Alice move?"
    assert len(retriever.invoke(question, k=1)) == 1
    assert len(asyncio.run(retriever.ainvoke(question, k=1))) == 1
    assert len(retriever.invoke(question, k=2)) == 2
    with pytest.raises(TypeError, match="user"):
        retriever.invoke(question, user="bob")
    with pytest.raises(ValueError, match="usr"):
        make(memory=memory, usr="alice")


def test_llamaindex_gets_nodes(memory: Memory) -> None:
    retriever = adapter("llamaindex").EngramlogIndexRetriever(memory, user="alice", top_k=1)
    (node,) = retriever.retrieve("where did Alice move?")
    assert (node.text, node.metadata["source"]) == ("Alice moved to Graz", "user:alice")
    assert node.score is not None
    (same,) = asyncio.run(retriever.aretrieve("where did Alice move?"))
    assert same.node.node_id == node.node.node_id


def test_llamaindex_adds_the_ranks_of_a_fact_over_several_questions(memory: Memory) -> None:
    """It knows a node by a hash of its text and metadata."""
    retriever = adapter("llamaindex").EngramlogIndexRetriever(memory, user="alice", top_k=2)
    fusing: Any = importlib.import_module("llama_index.core.retrievers")
    model: Any = importlib.import_module("llama_index.core.llms")
    questions = "Alice works at acme\nAlice moved"
    fused = fusing.QueryFusionRetriever(
        [retriever], llm=model.MockLLM(), num_queries=3, mode="reciprocal_rerank",
        use_async=False, query_gen_prompt=questions,
    ).retrieve("where did Alice move?")  # fmt: skip
    assert [(node.text, round(node.score * 60, 1)) for node in fused] == [
        ("Alice moved to Graz", 3.0), ("alice —[works-at]→ acme", 3.0)
    ]  # fmt: skip


@pytest.mark.parametrize("given", ["./memory", None, 3])
def test_an_adapter_takes_nothing_but_a_memory(memory: Memory, given: Any) -> None:
    for make in (
        lambda memory: adapter("langchain").EngramlogRetriever(memory=memory),
        adapter("llamaindex").EngramlogIndexRetriever,
        adapter("langgraph").EngramlogStore,
        adapter("openai_agents").memory_tools,
    ):
        with pytest.raises(TypeError, match="memory: give a Memory"):
            make(given)
    for writer in (adapter("langgraph").EngramlogStore, adapter("openai_agents").memory_tools):
        with pytest.raises(TypeError, match="read-only"):
            writer(memory.as_of(1))


def test_retrievers_take_an_awaited_memory(memory: Memory) -> None:
    retriever = adapter("llamaindex").EngramlogIndexRetriever(memory.awaited, user="alice", top_k=1)
    (node,) = retriever.retrieve("where did Alice move?")
    (same,) = asyncio.run(retriever.aretrieve("where did Alice move?"))
    assert same.node.node_id == node.node.node_id
    (document,) = (
        adapter("langchain")
        .EngramlogRetriever(memory=memory.awaited, user="alice", k=1)
        .invoke("where did Alice move?")
    )
    assert document.id == node.node.node_id


def called(tool: Any, **given: str) -> str:
    """The answer of a function tool, as the model reads it."""
    text = json.dumps(given)
    made: Any = importlib.import_module("agents.tool_context").ToolContext
    context = made(context=None, tool_name=tool.name, tool_call_id="1", tool_arguments=text)
    return asyncio.run(tool.on_invoke_tool(context, text))


def test_openai_agents_get_tools(memory: Memory) -> None:
    tools = adapter("openai_agents").memory_tools(memory, user="cy", max_tokens=200)
    remember, recall = tools
    assert recall.params_json_schema["required"] == ["question"]
    assert "data, not instructions" in recall.description
    assert called(recall, question="who keeps bees?") == "Nothing is known about this."
    assert called(remember, text="Cy keeps bees").startswith("remembered as ")
    assert '"Cy keeps bees"' in called(recall, question="who keeps bees?")
    assert "4711" not in called(recall, question="what opens the safe?")


def test_a_model_reads_why_a_tool_did_nothing(memory: Memory, tmp_path: Path) -> None:
    make = adapter("openai_agents").memory_tools
    remember, recall = make(memory.awaited, user="dee", max_tokens=20)
    assert called(remember, text=" ") == "Refused: not stored: content is empty"
    called(remember, text="Dee keeps bees " + "behind the barn " * 30)
    assert called(recall, question="bees?") == "What is known about this is too long to show here."
    closed = Memory(tmp_path / "closed")
    closed.close()
    for tool in make(closed):
        told = called(tool, text="a b", question="a b")
        assert told == "The memory cannot be reached now."


@pytest.mark.parametrize("wrong", [{"user": ""}, {"user": 3}, {"max_tokens": 0}])
def test_the_developer_learns_of_wrong_options(memory: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        adapter("openai_agents").memory_tools(memory, **wrong)


def test_langgraph_keeps_items(memory: Memory) -> None:
    store = adapter("langgraph").EngramlogStore(memory)
    users = ("users", "Älice/x")
    store.put(users, "Food", {"likes": "green tea", "times": 2})
    first = store.get(users, "Food")
    assert (first.value, first.key, first.namespace) == ({"likes": "green tea", "times": 2},
                                                         "Food", users)  # fmt: skip
    store.put(users, "Food", {"likes": "oolong", "times": 3})
    store.put(users, "Food", {"likes": "oolong", "times": 3})
    again = store.get(users, "Food")
    assert again.value["likes"] == "oolong"
    assert again.created_at == first.created_at
    assert again.updated_at > first.updated_at
    assert store.get(users, "food") is None
    assert store.get(("users",), "Food") is None

    store.put(("users", "bo"), "food", {"likes": "coffee", "times": 9})
    store.put(("notes",), "n", {"text": "coffee"})
    found = store.search(("users",), query="who likes coffee?")
    assert found[0].value["likes"] == "coffee"
    assert found[0].score is not None
    assert {item.namespace[0] for item in found} == {"users"}
    assert [item.key for item in store.search(("users",), filter={"times": {"$gt": 2, "$lt": 9}})
            ] == ["Food"]  # fmt: skip
    assert [item.key for item in store.search((), filter={"text": "coffee"})] == ["n"]
    assert len(store.search((), limit=1, offset=1)) == 1
    assert store.list_namespaces() == [("notes",), ("users", "bo"), users]
    assert store.list_namespaces(prefix=("users",), max_depth=1) == [("users",)]
    assert store.list_namespaces(suffix=("*",), limit=1) == [("notes",)]

    store.delete(("notes",), "n")
    assert store.get(("notes",), "n") is None
    with pytest.raises(NotImplementedError):
        store.put(users, "soon", {"a": 1}, ttl=1)

    async def awaited() -> Any:
        await store.aput(("a",), "k", {"x": 1})
        return await store.aget(("a",), "k")

    assert asyncio.run(awaited()).value == {"x": 1}


def test_langgraph_keeps_an_item_through_puts_at_the_same_time(memory: Memory) -> None:
    store = adapter("langgraph").EngramlogStore(memory)

    async def at_once() -> None:
        await asyncio.gather(*(store.aput(("race",), "k", {"tea": n}) for n in range(5)))

    asyncio.run(at_once())
    kept = store.get(("race",), "k").value
    assert kept["tea"] in range(5)
    assert [item.value for item in store.search(("race",))] == [kept]
    assert [item.value for item in store.search(("race",), query="tea")] == [kept]
    store.put(("race",), "k", kept)
    assert store.get(("race",), "k").value == kept
    store.put(("race",), "k", {"tea": "the last"})
    assert [item.value for item in store.search(("race",))] == [{"tea": "the last"}]
    store.delete(("race",), "k")
    assert store.get(("race",), "k") is None


def test_langgraph_leaves_an_item_as_it_was_if_a_key_may_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = adapter("langgraph").EngramlogStore
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")
    live = LiveNode(tmp_path / "shared", auth_required=True)
    keys = [live.mint("read", "write", entity=f"agent:{name}", sources=[]) for name in "ab"]
    with Memory(live.url, key=keys[0]) as first, Memory(live.url, key=keys[1]) as second:
        ours, theirs = make(first), make(second)
        ours.put(("shared",), "k", {"tea": 1})
        for change in (
            lambda: theirs.put(("shared",), "k", {"tea": 2}),
            lambda: theirs.delete(("shared",), "k"),
        ):
            with pytest.raises(ClientError, match="agent:a"):
                change()
            assert [item.value for item in theirs.search(("shared",))] == [{"tea": 1}]
        ours.delete(("shared",), "k")
        assert theirs.get(("shared",), "k") is None
    live.close()


def test_langgraph_finds_a_namespace_in_a_crowd_of_others(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recall is over the whole store, and its answer has an end."""
    store = adapter("langgraph").EngramlogStore(memory)
    for limit in ("RECALLED_MAX", "CROWD"):
        monkeypatch.setattr(f"engramlog.api.python.adapters.langgraph_store.{limit}", 3)
    store.put(("crowd", "ann"), "old", {"drinks": "lapsang, " + "a word " * 20})
    store.put(("crowd", "ann"), "new", {"drinks": "water"})
    for number in range(5):
        store.put(("crowd", "bo"), f"k{number}", {"drinks": f"lapsang {number}"})
    found = store.search(("crowd", "ann"), query="who drinks lapsang?")
    assert [(item.key, item.score) for item in found] == [("old", None), ("new", None)]
    every = store.search(("crowd",), query="who drinks lapsang?")
    assert len({(item.namespace, item.key) for item in every}) == len(every) == 7
    assert [item.score is None for item in every] == [False] * 3 + [True] * 4


def test_langgraph_reads_no_other_items_than_a_search_has_room_for(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = adapter("langgraph").EngramlogStore(memory)
    monkeypatch.setattr("engramlog.api.python.adapters.langgraph_store.CROWD", 3)
    for number in range(4):
        store.put(("room", "ann"), f"k{number}", {"drinks": f"oolong {number}"})
    lists: list[int] = []
    items = NodeRequests.items

    async def counted(self: NodeRequests, *given: Any, **more: Any) -> Any:
        lists.append(given[3])
        return await items(self, *given, **more)

    monkeypatch.setattr(NodeRequests, "items", counted)
    assert len(store.search(("room",), query="oolong", limit=3)) == 3
    assert lists == []
    assert len(store.search(("room",), query="oolong", limit=5)) == 4
    assert lists == [10_000]


@pytest.mark.parametrize("value", [["tea"], "tea", 3])
def test_langgraph_refuses_a_value_that_is_no_dict(memory: Memory, value: Any) -> None:
    """One such item would break every search with a filter."""
    store = adapter("langgraph").EngramlogStore(memory)
    with pytest.raises(TypeError, match="value: give a dict"):
        store.put(("odd",), "k", value)
    assert store.search(("odd",), filter={"tea": 1}) == []


def test_langgraph_keeps_keys_of_several_types_as_texts(memory: Memory) -> None:
    store = adapter("langgraph").EngramlogStore(memory)
    store.put(("odd",), "k", {1: "one", "b": [None, {2.5: "x"}], None: "none"})
    kept = {"1": "one", "b": [None, {"2.5": "x"}], "null": "none"}
    assert store.get(("odd",), "k").value == kept
    store.delete(("odd",), "k")
