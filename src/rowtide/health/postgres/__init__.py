"""Health of a PostgreSQL database: facts, then what they mean."""
