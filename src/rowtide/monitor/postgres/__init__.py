"""Polling a PostgreSQL database."""
