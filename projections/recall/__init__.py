"""Recall: the facts that answer a question best, within a budget of tokens.

All systems share one pipeline (``pipeline``). They differ only in their profile, a document
(``profile``, ``profiles/``).
"""
