"""Positions, table shapes, log records, update masks and errors: rowtide's vocabulary, without I/O."""
