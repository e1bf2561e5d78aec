"""The archive: a copy of the log's events in Parquet files, for questions that scan them.

``log.db`` stays the truth; every file can be written again from it.
"""
