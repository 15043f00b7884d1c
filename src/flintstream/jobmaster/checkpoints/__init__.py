"""Checkpoints on the driver: when they are taken, what becomes of them, and what a job goes on from."""
