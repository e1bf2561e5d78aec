"""The event log in a PostgreSQL database that any number of nodes share.

``schema`` says what the database holds and enforces, ``log`` is the engine, ``server`` what the
server must promise before anything is acknowledged.
"""
