"""A gap of the log bridged by a keyed difference of the captured tables: before it, and after it."""
