"""HBase inside a slot: the connection to a Thrift server, the sink's operator, lookups."""
