"""A gap of the log reconciled by a keyed difference of the captured tables: before it, and after it."""
