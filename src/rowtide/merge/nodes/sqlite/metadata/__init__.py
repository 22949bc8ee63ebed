"""What a SQLite node stores about rows, and the views that show it."""
