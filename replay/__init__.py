"""Moving through the log: verification, moments, rebuilds, snapshots, backups, federation.

Owns the code that reads a whole log again, and the exchange with other nodes. Promises: nothing
foreign is appended before verification, and a file replaces another only when complete. Knows
nothing of HTTP; imports ``engramlog.projections`` and ``engramlog.eventlog``.
"""
