"""Cycles: from the log store to published change tables."""
