"""LangGraph's long-term store over a memory."""

from engramlog.api.python.adapters.langgraph_store import EngramlogStore

__all__ = ["EngramlogStore"]
