"""Conflicts of delivered changes with those that a PostgreSQL subscriber has from others."""
