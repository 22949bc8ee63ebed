"""What a check knows of a SQLite file, and what it means for tracking."""
