"""The audit in a PostgreSQL database."""
