"""HTTP and WebSocket inside a slot: requests, connections, the operators of their sinks."""
