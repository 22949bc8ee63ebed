"""Polling a SQLite file."""
