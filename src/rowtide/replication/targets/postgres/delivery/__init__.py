"""Calls sent to a PostgreSQL subscriber, over one connection or several."""
