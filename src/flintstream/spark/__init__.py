"""What runs on Spark, and knows no operator: session, sources, exchange, epochs, deployment of slots."""
