"""From events to answers: tables, the memory image, the writer's decisions, queries and recall.

Owns ``projections.db`` and the memory image. Promises: projectors are pure, a rebuild gives equal
rows, and a query sees only what its caller may read at its moment. Knows nothing of HTTP or peers;
imports only ``engramlog.eventlog``. ``docs/projections.md`` describes the tables.
"""
