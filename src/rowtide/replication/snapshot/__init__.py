"""The copy with which a subscription begins: its tables, their rows in chunks, and their other objects."""
