"""The door for Python programs: ``Memory`` and what is built on it.

Verbs are written once (``async_memory``) over one small protocol (``transport``), which a node
elsewhere and a directory opened in this process both answer.
"""
