"""A SQLite file as a node of a merge."""
