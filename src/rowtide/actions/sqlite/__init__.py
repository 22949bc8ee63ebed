"""The audit in a SQLite file."""
