"""Checkpoints as they are stored: where their bytes go, and what ties them together."""
