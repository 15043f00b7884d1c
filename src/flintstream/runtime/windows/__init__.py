"""Windows inside a subtask: contents, functions and operators."""
