"""Operators: each takes batches of records and emits batches of results."""
