"""The JobMaster: runs a job on the driver: its life cycle, its epochs, its sources."""
