"""Checkpointing, driver and slots: triggering, storage, ownership and restore.

On the driver: `settings`, `coordinator`, `writer`, `lease` (ownership of the job), `store` (completed checkpoints),
`restore`. In a slot: `snapshot` (the state of an operator as bytes), `chain` (incremental snapshots), `databases`,
`pieces`, `uploads`. In both: `storage` (files), `metadata`, `signing`, `reports`.
"""
