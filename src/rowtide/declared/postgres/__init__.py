"""Declared state of PostgreSQL databases."""
