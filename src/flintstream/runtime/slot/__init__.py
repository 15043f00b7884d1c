"""A slot: its process, its connections, its tasks, and what it is told to host."""
