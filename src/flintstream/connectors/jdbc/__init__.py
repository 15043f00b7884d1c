"""JDBC sinks: databases and their differences, statements and rows, batches, prepared transactions."""
