"""Views: pure functions from what the server knows about jobs to the shapes of Flink's REST API."""
