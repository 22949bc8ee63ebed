"""Received rows, written to the tables of a PostgreSQL node."""
