"""Cleanup: the removal of change rows older than the retention."""
