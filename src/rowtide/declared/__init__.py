"""Declared state: what rowtide does in a database, as a file that is written from it and applied to it."""
