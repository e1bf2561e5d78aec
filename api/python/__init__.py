"""The Python API: ``Memory`` and its results.

``async_memory`` implements the verbs once, over a small protocol (``transport``). Two classes
implement that: for a remote node, and for a directory opened in this process.
"""
