"""A slot: its process, its connections, its tasks, its deployment."""
