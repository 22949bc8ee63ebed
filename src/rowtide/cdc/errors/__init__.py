"""Errors of change data capture: SQL Server's numbers where it has one, else 4xxx."""
