"""Databases that take part in a merge: the interfaces, and an implementation for each kind of database."""
