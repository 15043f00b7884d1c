"""What runs inside a slot: blocks, channels, operators, state. Knows no Spark."""
