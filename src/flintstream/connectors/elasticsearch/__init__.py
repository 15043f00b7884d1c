"""Elasticsearch and OpenSearch inside a slot: bulk requests over HTTP, the sink's operator."""
