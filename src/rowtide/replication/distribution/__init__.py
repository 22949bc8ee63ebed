"""Delivery of the log to one subscription: transactions are read, turned into calls, and run there."""
