"""The runtime of a job, independent of Spark: slots and their tasks, operators, state, time, windows, checkpoints."""
