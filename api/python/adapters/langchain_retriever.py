"""LangChain: a retriever whose documents are the facts that answer best."""

# pyright: basic, reportMissingImports=false
# Type checks run without the framework.

from typing import Any

from engramlog.api.python.adapters.shared import awaited_view, metadata_of, needs, text_of_fact
from engramlog.api.python.transport import waited

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict, field_validator
except ImportError as fault:
    raise needs("langchain-core", "langchain") from fault


class EngramlogRetriever(BaseRetriever):
    """``memory``: a ``Memory`` or ``AsyncMemory``, or a view of its past; ``user``: the owner of
    the memories; ``k``: how many documents at most, also for one question (``invoke(…, k=3)``)."""

    # A misspelt ``user`` must not find the memories of all.
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    memory: Any
    user: str | None = None
    k: int = 5

    @field_validator("memory")
    @classmethod
    def _is_a_memory(cls, memory: object) -> object:
        awaited_view(memory)
        return memory

    # LangChain hands the options of ``invoke`` on if these two name one, and ignores them all
    # otherwise.
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, k: int | None = None
    ) -> list[Document]:
        return waited(self._aget_relevant_documents(query, run_manager=run_manager, k=k))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: Any,  # noqa: ARG002
        k: int | None = None,
    ) -> list[Document]:
        most = self.k if k is None else k
        found = await awaited_view(self.memory).recall(query, user=self.user, limit=most)
        return [
            Document(id=fact.id, page_content=text_of_fact(fact), metadata=metadata_of(fact))
            for fact in found
        ]
