"""The check of a SQLite file."""
