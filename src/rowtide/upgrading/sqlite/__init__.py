"""What a SQLite file has stored."""
