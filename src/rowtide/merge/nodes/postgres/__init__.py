"""A PostgreSQL database as a node of a merge."""
