"""Change tracking on SQLite: triggers, tombstones, enumeration."""
