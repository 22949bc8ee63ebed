"""The check of a PostgreSQL database."""
