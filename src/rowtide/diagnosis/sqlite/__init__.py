"""What is known of a SQLite file, and what it means."""
