"""LlamaIndex: a retriever whose nodes are the facts that answer best."""

# pyright: basic, reportMissingImports=false
# Type checks run without the framework.

from __future__ import annotations

from engramlog.api.python.adapters.found import metadata_of, text_of_fact
from engramlog.api.python.adapters.missing import needs
from engramlog.api.python.memory import MemoryView
from engramlog.api.python.results import RecalledFacts

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as fault:
    raise needs("llama-index-core", "llama-index") from fault


class EngramlogIndexRetriever(BaseRetriever):
    """``memory``: a ``Memory``, or a view of its past; ``user``: the owner of the memories;
    ``top_k``: how many nodes at most."""

    def __init__(self, memory: MemoryView, *, user: str | None = None, top_k: int = 5) -> None:
        super().__init__()
        self._memory = memory
        self._user = user
        self._top_k = top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = query_bundle.query_str
        return _nodes(self._memory.recall(question, user=self._user, limit=self._top_k))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = query_bundle.query_str
        awaited = self._memory.awaited
        return _nodes(await awaited.recall(question, user=self._user, limit=self._top_k))


def _nodes(found: RecalledFacts) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(id_=fact.id, text=text_of_fact(fact), metadata=metadata_of(fact)),
            score=fact.score,
        )
        for fact in found
    ]
