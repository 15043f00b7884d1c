"""Windows inside a subtask: their contents, what fires them, and the operators that keep them."""
