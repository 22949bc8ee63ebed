"""Databases and tables enabled and disabled: what an instance captures, and by which key."""
