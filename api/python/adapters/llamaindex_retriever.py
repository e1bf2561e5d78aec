"""LlamaIndex: a retriever whose nodes are the facts that answer best."""

# pyright: basic, reportMissingImports=false
# Type checks run without the framework.

from engramlog.api.python.adapters.shared import awaited_view, metadata_of, needs, text_of_fact
from engramlog.api.python.async_memory import AsyncMemoryView
from engramlog.api.python.memory import MemoryView
from engramlog.api.python.results import Fact
from engramlog.api.python.transport import waited

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as fault:
    raise needs("llama-index-core", "llama-index") from fault


class EngramlogIndexRetriever(BaseRetriever):
    """``memory``: a ``Memory`` or ``AsyncMemory``, or a view of its past; ``user``: the owner of
    the memories; ``top_k``: how many nodes at most."""

    def __init__(
        self,
        memory: MemoryView | AsyncMemoryView,
        *,
        user: str | None = None,
        top_k: int = 5,
    ) -> None:
        super().__init__()
        self._memory = awaited_view(memory)
        self._user = user
        self._top_k = top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return waited(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._memory.recall(
            query_bundle.query_str, user=self._user, limit=self._top_k
        )
        return [_node(fact) for fact in found]


def _node(fact: Fact) -> NodeWithScore:
    # LlamaIndex merges the answers of several questions by a hash of text and metadata: a fact must
    # have the same for every question, and so no score.
    metadata = {name: value for name, value in metadata_of(fact).items() if name != "score"}
    node = TextNode(id_=fact.id, text=text_of_fact(fact), metadata=metadata)
    return NodeWithScore(node=node, score=fact.score)
