"""Synchronisation of a subscriber with its hub: the two halves, their messages, and what each does with rows."""
