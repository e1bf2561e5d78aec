"""The faces of a node: HTTP, MCP, command line, console, Python; import and export.

Owns the running node, its tasks and its settings. Promises: every request is checked before
anything reads or writes, and every error names its code. Holds no SQL: questions go to
``engramlog.projections``, commands to its writer. ``docs/architecture.md`` follows one of each.
"""
