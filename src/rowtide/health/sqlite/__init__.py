"""Health of a SQLite file: facts, then what they mean."""
