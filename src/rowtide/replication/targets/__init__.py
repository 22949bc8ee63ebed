"""Subscribers by kind of database: what delivery, copies and comparisons do in them."""
