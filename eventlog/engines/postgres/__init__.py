"""The event log in a PostgreSQL database that any number of nodes share.

``schema`` has the tables and their guards, ``log`` is the engine, and ``server`` checks the
server's settings before every acknowledgement.
"""
