"""Readers of change tables without Spark: Arrow, streamed in order and in bounded memory."""
