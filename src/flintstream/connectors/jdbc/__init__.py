"""Databases: what differs between them, statements and their rows, batches, prepared transactions."""
