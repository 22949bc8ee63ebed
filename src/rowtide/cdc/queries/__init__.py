"""Queries on the lake: changes, net changes, the functions of Spark SQL."""
