"""Tools of the OpenAI Agents SDK over a memory."""

from engramlog.api.python.adapters.openai_agents_tools import memory_tools

__all__ = ["memory_tools"]
