"""The job server: starts a driver for each submitted job, and serves Flink's REST API and a web page. Runs no user code."""
