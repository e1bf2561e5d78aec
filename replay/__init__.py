"""Moving through the log: verification, moments, rebuilds, snapshots, backups, federation.

Owns what reads a whole log again, and what other nodes send. Promises: nothing foreign is
appended before it is verified, and a file takes another's place only when it is complete.
Knows nothing of HTTP; imports ``engramlog.projections`` and ``engramlog.eventlog``.
"""
