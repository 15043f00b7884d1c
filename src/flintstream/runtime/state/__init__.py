"""Keyed state of a subtask."""
