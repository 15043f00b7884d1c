"""Time inside a subtask: watermarks of channels, timers."""
