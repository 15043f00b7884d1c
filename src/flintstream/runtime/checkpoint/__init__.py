"""Checkpoints, whole: when one is taken, what is written, who may write it, and how a job is restored.

On the driver: `settings`, `coordinator`, `writer`, `lease` (who owns the job), `store` (which ones are complete), `restore`.
In a slot: `snapshot` (the state of an operator as bytes), `chain` (only what has changed), `databases`, `pieces`, `uploads`.
Both: `storage` (where bytes go), `metadata` (what ties them together), `signing`, `reports`.
"""
