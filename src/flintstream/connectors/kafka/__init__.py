"""Kafka: properties of clients, producers, transactions that outlive their producer, and the operators of the sink."""
