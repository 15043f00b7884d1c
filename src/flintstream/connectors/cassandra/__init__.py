"""Cassandra inside a slot: the connection, concurrent requests, the sink's operator."""
