"""What runs a job: its life, its epochs, the positions of its sources."""
