"""Errors of merge replication, 8xxx."""
