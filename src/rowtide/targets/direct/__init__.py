"""Applies without Spark: changes and tables of bounded size, to Delta tables at paths."""
