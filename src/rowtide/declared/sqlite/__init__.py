"""Declared state of SQLite files."""
