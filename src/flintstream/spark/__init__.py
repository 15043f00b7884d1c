"""The part of Flintstream that runs on Spark, independent of operators: session, sources, exchange, epochs, deployment
of slots.
"""
