"""Calls that apply a transaction at a subscriber: made from log records, ordered, joined, or skipped."""
