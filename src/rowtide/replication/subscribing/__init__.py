"""Subscriptions, added, changed and dropped, and their places in the log store."""
