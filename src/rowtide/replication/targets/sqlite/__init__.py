"""A SQLite file as a subscriber."""
