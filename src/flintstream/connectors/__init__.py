"""What reads and writes other systems inside a slot, one package a system. Knows no Spark.

The names that a program imports are in `flintstream.datastream.connectors`.
"""
