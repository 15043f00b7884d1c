"""What runs a job and knows no Spark: slots and their tasks, operators, state, time, windows, checkpoints."""
