"""The lake: SparkSession, Delta tables, appends that happen once."""
