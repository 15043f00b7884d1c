"""Kafka: properties of clients, consumers of the source, producers and transactions of the sink."""
