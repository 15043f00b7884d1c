"""Time inside a subtask: watermarks and timers."""
