"""The lake: the SparkSession, Delta tables, and idempotent appends."""
