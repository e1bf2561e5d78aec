"""A LlamaIndex retriever over a memory."""

from engramlog.api.python.adapters.llamaindex_retriever import EngramlogIndexRetriever

__all__ = ["EngramlogIndexRetriever"]
