"""The archive: the log's events once more as Parquet files, for questions that scan them.

A copy, never the truth: ``log.db`` stays that, and every file can be written again from it.
"""
