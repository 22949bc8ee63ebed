"""A PostgreSQL database as a subscriber."""
