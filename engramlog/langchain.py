"""A LangChain retriever over a memory."""

from engramlog.api.python.adapters.langchain_retriever import EngramlogRetriever

__all__ = ["EngramlogRetriever"]
