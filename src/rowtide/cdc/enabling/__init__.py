"""Enabling and disabling databases and tables: what an instance captures, and by which key."""
