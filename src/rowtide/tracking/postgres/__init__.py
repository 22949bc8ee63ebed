"""Change tracking on PostgreSQL: triggers, tombstones, enumeration."""
