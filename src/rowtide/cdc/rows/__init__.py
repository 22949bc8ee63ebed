"""Converts log records into change rows, as Spark SQL text."""
