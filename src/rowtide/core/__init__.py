"""Positions, table shapes, log records, update masks and errors: the words of rowtide, without I/O."""
