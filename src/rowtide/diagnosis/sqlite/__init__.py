"""The diagnosis of a SQLite file."""
