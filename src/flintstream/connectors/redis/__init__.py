"""Redis inside a slot: connections, commands, the sink's operator."""
