"""A PostgreSQL subscriber's tables: created, altered, and their own constraints and objects set aside."""
