"""Errors of transactional replication: SQL Server's numbers where it has one, else 7xxx."""
