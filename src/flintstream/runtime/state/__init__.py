"""Keyed state and operator state of a subtask."""
