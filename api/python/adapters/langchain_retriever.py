"""LangChain: a retriever whose documents are the facts that answer best."""

# pyright: basic, reportMissingImports=false
# Type checks run without the framework.

from __future__ import annotations

from typing import Any

from engramlog.api.python.adapters.found import metadata_of, text_of_fact
from engramlog.api.python.adapters.missing import needs
from engramlog.api.python.memory import MemoryView
from engramlog.api.python.results import RecalledFacts

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as fault:
    raise needs("langchain-core", "langchain") from fault


class EngramlogRetriever(BaseRetriever):
    """``memory``: a ``Memory``, or a view of its past; ``user``: the owner of the memories; ``k``:
    how many documents at most."""

    memory: Any
    user: str | None = None
    k: int = 5

    def _view(self) -> MemoryView:
        view: MemoryView = self.memory
        return view

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:  # noqa: ARG002
        return _documents(self._view().recall(query, user=self.user, limit=self.k))

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:  # noqa: ARG002
        found = await self._view().awaited.recall(query, user=self.user, limit=self.k)
        return _documents(found)


def _documents(found: RecalledFacts) -> list[Document]:
    return [
        Document(id=fact.id, page_content=text_of_fact(fact), metadata=metadata_of(fact))
        for fact in found
    ]
