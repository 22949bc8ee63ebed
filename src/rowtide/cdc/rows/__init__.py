"""Converts log records into change rows: in Arrow, and as Spark SQL text."""
