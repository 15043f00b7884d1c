"""File and message formats."""
