"""Keyed state on disk: a RocksDB database for each subtask."""
