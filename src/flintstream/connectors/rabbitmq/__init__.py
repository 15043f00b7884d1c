"""RabbitMQ inside a slot: connections, and the operators of sink and source."""
